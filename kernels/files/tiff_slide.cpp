// Slides as tiled TIFF files, by libtiff.
//
// Levels are the file's pages that are tiled as the first one is, smaller than the one before, and
// of the same shape; others (a label, an overview, a mask) are passed over.
#include <ATen/Functions.h>

#include <atomic>
#include <cmath>

#include "engine/base/durable_file.h"
#include "kernels/files/slide.h"
#include "kernels/files/tiff_file.h"

namespace sluice {
namespace {

// Beyond these a header is not believed: 2^24 tiles of 256 x 256 are a terapixel.
constexpr std::uint64_t most_tiles = 1ull << 24, most_tile_bytes = 64ull << 20;
constexpr int most_pages = 1000;

const char* compression_name(std::uint16_t code) {
  switch (code) {
    case COMPRESSION_NONE:
      return "none";
    case COMPRESSION_LZW:
      return "LZW";
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
      return "deflate";
    case COMPRESSION_JPEG:
      return "JPEG";
    default:
      return nullptr;
  }
}

struct Page {
  std::uint32_t number = 0;
  std::int64_t rows = 0, columns = 0, tile_rows = 0, tile_columns = 0, channels = 0;
  std::int64_t tiles_across() const { return (columns + tile_columns - 1) / tile_columns; }
  std::int64_t tiles_down() const { return (rows + tile_rows - 1) / tile_rows; }
  std::size_t tile_bytes() const {
    return static_cast<std::size_t>(tile_rows * tile_columns * channels);
  }
};

class TiffSlide final : public Slide {
 public:
  TiffSlide(const std::filesystem::path& path, std::shared_ptr<TileCache> cache)
      : file_(opened(path)), cache_(std::move(cache)) {
    path_ = path.string();
    static std::atomic<std::uint64_t> next{1};
    id_ = next++;
    auto first = std::make_unique<TiffFile>(fd(), path_);
    first->said();  // warnings of tags that libtiff does not know
    pages_.push_back(page(*first, 0));
    channels_ = pages_[0].channels;
    mpp_ = mpp_of(*first);
    find_levels(*first);
    for (const Page& p : pages_) {
      const Page& full = pages_[0];
      const auto times = [](std::int64_t a, std::int64_t b) {
        return static_cast<double>(a) / static_cast<double>(b);
      };
      levels_.push_back(
          {p.rows, p.columns, (times(full.rows, p.rows) + times(full.columns, p.columns)) / 2});
    }
    idle_.resize(pages_.size());
  }

  at::Tensor read(std::int64_t number, std::int64_t top, std::int64_t left, std::int64_t rows,
                  std::int64_t columns, std::uint8_t outside) override {
    const SlideLevel& l = level(number);
    const Page& page = pages_[static_cast<std::size_t>(number)];
    top = std::llrint(static_cast<double>(top) / l.downsample);
    left = std::llrint(static_cast<double>(left) / l.downsample);
    at::Tensor region = at::empty({rows, columns, channels_}, at::kByte);
    auto* to = region.mutable_data_ptr<std::uint8_t>();
    const std::int64_t bottom = std::min(top + rows, page.rows),
                       right = std::min(left + columns, page.columns);
    const bool inside = top >= 0 && left >= 0 && bottom == top + rows && right == left + columns;
    if (!inside) region.fill_(outside);
    const auto first = [](std::int64_t at, std::int64_t tile) { return std::max(at, 0l) / tile; };
    for (std::int64_t r = first(top, page.tile_rows); r * page.tile_rows < bottom; ++r)
      for (std::int64_t c = first(left, page.tile_columns); c * page.tile_columns < right; ++c) {
        const TileCache::Tile tile = cache_->get({id_, number, r * page.tiles_across() + c}, [&] {
          return decode(number, r * page.tiles_across() + c, outside);
        });
        const std::int64_t y0 = std::max(top, r * page.tile_rows),
                           y1 = std::min(bottom, (r + 1) * page.tile_rows),
                           x0 = std::max(left, c * page.tile_columns),
                           x1 = std::min(right, (c + 1) * page.tile_columns);
        for (std::int64_t y = y0; y < y1; ++y)
          std::copy_n(tile->data() + ((y - r * page.tile_rows) * page.tile_columns + x0 -
                                      c * page.tile_columns) *
                                         channels_,
                      (x1 - x0) * channels_, to + ((y - top) * columns + x0 - left) * channels_);
      }
    return region;
  }

 private:
  struct Descriptor {
    int fd;
    explicit Descriptor(int n) : fd(n) {}
    ~Descriptor() { ::close(fd); }
    Descriptor(const Descriptor&) = delete;
  };

  static std::unique_ptr<Descriptor> opened(const std::filesystem::path& path) {
    const int fd = open_to_read(path.c_str());
    if (fd >= 0) return std::make_unique<Descriptor>(fd);
    if (errno == ENOENT || errno == ENOTDIR || errno == EISDIR || errno == ENXIO ||
        errno == ENOTSUP)
      throw DataError(path.string() + ": " + std::generic_category().message(errno));
    fail_io("open", path, errno);
  }
  int fd() const { return file_->fd; }

  // The page that the handle stands on; DataError where it is none that is read here.
  Page page(const TiffFile& tiff, std::uint32_t number) const {
    const auto refuse = [&](const std::string& why) {
      throw DataError(path_ + ": page " + std::to_string(number) + " " + why);
    };
    const auto width = tiff.tag<std::uint32_t>(TIFFTAG_IMAGEWIDTH, 0),
               height = tiff.tag<std::uint32_t>(TIFFTAG_IMAGELENGTH, 0);
    const auto wide = tiff.tag<std::uint32_t>(TIFFTAG_TILEWIDTH, 0),
               high = tiff.tag<std::uint32_t>(TIFFTAG_TILELENGTH, 0);
    const auto bits = tiff.short_tag(TIFFTAG_BITSPERSAMPLE),
               samples = tiff.short_tag(TIFFTAG_SAMPLESPERPIXEL),
               compression = tiff.short_tag(TIFFTAG_COMPRESSION),
               colours = tiff.tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    if (!TIFFIsTiled(tiff.get()))
      refuse("is stored in strips; regions are read of tiles: vips tiffsave " + path_ +
             " OUT.tif --tile --pyramid");
    if (width == 0 || height == 0 || wide == 0 || high == 0) refuse("is empty");
    if (bits != 8 || tiff.short_tag(TIFFTAG_SAMPLEFORMAT) != SAMPLEFORMAT_UINT)
      refuse("has " + std::to_string(bits) + " bits a sample; 8 are read");
    if (samples > 1 && tiff.short_tag(TIFFTAG_PLANARCONFIG) != PLANARCONFIG_CONTIG)
      refuse("keeps its colours in separate planes");
    if (!compression_name(compression))
      refuse("has compression " + std::to_string(compression) +
             "; none, LZW, deflate and JPEG are read (backend \"openslide\" may read more)");
    const bool grey = samples == 1 && colours == PHOTOMETRIC_MINISBLACK;
    const bool rgb =
        samples == 3 && (colours == PHOTOMETRIC_RGB ||
                         (colours == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG));
    if (!grey && !rgb)
      refuse("has " + std::to_string(samples) + " channels of photometric interpretation " +
             std::to_string(colours) + "; grey and RGB (by JPEG also YCbCr) are read");
    const Page p{number, height, width, high, wide, samples};
    if (static_cast<std::uint64_t>(wide) * high * samples > most_tile_bytes)
      refuse("has tiles of " + std::to_string(wide) + " x " + std::to_string(high) +
             ", more than " + with_commas(most_tile_bytes) + " bytes each");
    const auto tiles =
        static_cast<std::uint64_t>(p.tiles_across()) * static_cast<std::uint64_t>(p.tiles_down());
    if (tiles > most_tiles)
      refuse("declares " + with_commas(tiles) + " tiles; at most " + with_commas(most_tiles) +
             " are read");
    return p;
  }

  void find_levels(TiffFile& tiff) {
    const Page full = pages_[0];
    for (std::uint32_t number = 1; !TIFFLastDirectory(tiff.get()); ++number) {
      if (number > most_pages)
        throw DataError(path_ + ": has more than " + std::to_string(most_pages) + " pages");
      const bool more = TIFFReadDirectory(tiff.get()) == 1;
      const std::string said = tiff.said();
      if (!more)
        throw DataError(path_ + ": page " + std::to_string(number) + " cannot be read: " + said);
      constexpr std::uint32_t mask = FILETYPE_MASK;
      if (!TIFFIsTiled(tiff.get()) || (tiff.tag<std::uint32_t>(TIFFTAG_SUBFILETYPE, 0) & mask))
        continue;
      const auto height = tiff.tag<std::uint32_t>(TIFFTAG_IMAGELENGTH, 0),
                 width = tiff.tag<std::uint32_t>(TIFFTAG_IMAGEWIDTH, 0);
      if (width == 0 || width >= pages_.back().columns || height > pages_.back().rows) continue;
      const double rows =
          static_cast<double>(full.rows) * width / static_cast<double>(full.columns);
      if (std::abs(rows - height) > std::max(1.0, 0.01 * rows)) continue;
      const Page next = page(tiff, number);
      if (next.channels == full.channels) pages_.push_back(next);
    }
  }

  static std::optional<double> mpp_of(const TiffFile& tiff) {
    const float across = tiff.tag<float>(TIFFTAG_XRESOLUTION, 0);
    const std::uint16_t unit = tiff.short_tag(TIFFTAG_RESOLUTIONUNIT);
    if (!(across > 0) || !std::isfinite(across) || unit == RESUNIT_NONE) return {};
    return (unit == RESUNIT_CENTIMETER ? 1e4 : 25400.0) / static_cast<double>(across);
  }

  // A handle that stands on the level's page. Who is done puts it back; there are never more than
  // threads that read at once.
  std::unique_ptr<TiffFile> take(std::int64_t number) {
    auto& idle = idle_[static_cast<std::size_t>(number)];
    {
      std::lock_guard lock(mutex_);
      if (!idle.empty()) {
        auto tiff = std::move(idle.back());
        idle.pop_back();
        return tiff;
      }
    }
    const Page& p = pages_[static_cast<std::size_t>(number)];
    auto tiff = std::make_unique<TiffFile>(fd(), path_);
    if (TIFFSetDirectory(tiff->get(), static_cast<tdir_t>(p.number)) != 1)
      throw DataError(path_ + ": level " + std::to_string(number) +
                      " cannot be read: " + tiff->said());
    if (tiff->short_tag(TIFFTAG_COMPRESSION) == COMPRESSION_JPEG)
      TIFFSetField(tiff->get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    if (static_cast<std::size_t>(TIFFTileSize(tiff->get())) != p.tile_bytes())
      throw DataError(path_ + ": level " + std::to_string(number) +
                      " has changed while it was read");
    tiff->said();
    return tiff;
  }

  TileCache::Tile decode(std::int64_t number, std::int64_t tile, std::uint8_t outside) {
    const Page& p = pages_[static_cast<std::size_t>(number)];
    auto tiff = take(number);
    auto pixels = std::make_shared<FileBytes>(p.tile_bytes());
    const auto index = static_cast<std::uint32_t>(tile);
    const std::uint64_t bytes = TIFFGetStrileByteCount(tiff->get(), index);
    std::string why = tiff->said();
    if (why.empty() && bytes == 0) {  // the format's way to say that nothing is there
      std::fill_n(pixels->data(), pixels->size(), outside);
    } else if (why.empty()) {
      const tmsize_t got = TIFFReadEncodedTile(tiff->get(), index, pixels->data(),
                                               static_cast<tmsize_t>(pixels->size()));
      why = tiff->said();
      if (why.empty() && got != static_cast<tmsize_t>(pixels->size())) why = "it is too short";
    }
    if (!why.empty())
      throw DataError(path_ + ": level " + std::to_string(number) + ", tile " +
                      std::to_string(tile) + " (row " + std::to_string(tile / p.tiles_across()) +
                      ", column " + std::to_string(tile % p.tiles_across()) +
                      ") is damaged: " + why);
    std::lock_guard lock(mutex_);
    idle_[static_cast<std::size_t>(number)].push_back(std::move(tiff));
    return pixels;
  }

  const std::unique_ptr<Descriptor> file_;
  const std::shared_ptr<TileCache> cache_;
  std::uint64_t id_ = 0;
  std::vector<Page> pages_;
  std::mutex mutex_;
  std::vector<std::vector<std::unique_ptr<TiffFile>>> idle_;  // by level
};

}  // namespace

std::unique_ptr<Slide> open_tiff_slide(const std::filesystem::path& path,
                                       std::shared_ptr<TileCache> cache) {
  return std::make_unique<TiffSlide>(path, std::move(cache));
}

}  // namespace sluice
