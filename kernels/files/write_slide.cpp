#include <ATen/Functions.h>

#include <cmath>
#include <cstring>

#include "engine/base/durable_file.h"
#include "kernels/files/slide.h"
#include "kernels/files/tiff_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// A file that is removed unless it was kept.
class NewFile {
 public:
  explicit NewFile(fs::path path) : path_(std::move(path)) {}
  ~NewFile() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove(path_, ignored);
  }
  NewFile(const NewFile&) = delete;
  const fs::path& path() const { return path_; }
  void become(const fs::path& name) {
    {
      File file(path_, O_WRONLY);
      file.close();  // with an fsync
    }
    fs::rename(path_, name);
    path_.clear();
    sync_folder(name.parent_path().empty() ? "." : name.parent_path());
  }

 private:
  fs::path path_;
};

struct Size {
  std::int64_t rows, columns;
};

// Whether the format has another level behind these.
bool has_more(const std::vector<Size>& levels, const SlideFormat& f) {
  return f.levels > 0 ? std::ssize(levels) < f.levels
                      : std::max(levels.back().rows, levels.back().columns) > f.tile;
}

// All of them, or as many as the pixels can be halved.
std::vector<Size> level_sizes(std::int64_t rows, std::int64_t columns, const SlideFormat& f) {
  std::vector<Size> levels{{rows, columns}};
  while (has_more(levels, f) && std::min(levels.back().rows, levels.back().columns) > 1)
    levels.push_back({levels.back().rows / 2, levels.back().columns / 2});
  return levels;
}

void set_tags(TIFF* t, const Size& size, std::int64_t channels, const SlideFormat& f,
              std::size_t level) {
  TIFFSetField(t, TIFFTAG_SUBFILETYPE, level > 0 ? FILETYPE_REDUCEDIMAGE : 0);
  TIFFSetField(t, TIFFTAG_IMAGEWIDTH, static_cast<std::uint32_t>(size.columns));
  TIFFSetField(t, TIFFTAG_IMAGELENGTH, static_cast<std::uint32_t>(size.rows));
  TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, static_cast<int>(channels));
  TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(t, TIFFTAG_TILEWIDTH, static_cast<std::uint32_t>(f.tile));
  TIFFSetField(t, TIFFTAG_TILELENGTH, static_cast<std::uint32_t>(f.tile));
  const bool jpeg = f.compression == "jpeg";
  TIFFSetField(t, TIFFTAG_COMPRESSION,
               jpeg                         ? COMPRESSION_JPEG
               : f.compression == "deflate" ? COMPRESSION_ADOBE_DEFLATE
               : f.compression == "lzw"     ? COMPRESSION_LZW
                                            : COMPRESSION_NONE);
  TIFFSetField(t, TIFFTAG_PHOTOMETRIC,
               channels == 1 ? PHOTOMETRIC_MINISBLACK
               : jpeg        ? PHOTOMETRIC_YCBCR
                             : PHOTOMETRIC_RGB);
  if (jpeg) {
    TIFFSetField(t, TIFFTAG_JPEGQUALITY, static_cast<int>(f.quality));
    if (channels == 3) TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  }
  if (f.mpp) {
    const double across = 1e4 / *f.mpp / std::pow(2.0, static_cast<double>(level));
    TIFFSetField(t, TIFFTAG_RESOLUTIONUNIT, RESUNIT_CENTIMETER);
    TIFFSetField(t, TIFFTAG_XRESOLUTION, across);
    TIFFSetField(t, TIFFTAG_YRESOLUTION, across);
  }
}

// One level on its way into a file: a band of rows of tiles, written when it is full.
class Level {
 public:
  Level(TiffFile& file, const Size& size, std::int64_t channels, const SlideFormat& format)
      : file_(file),
        size_(size),
        channels_(channels),
        tile_(format.tile),
        band_(static_cast<std::size_t>(tile_ * size.columns * channels)) {}

  // Where the next rows go, and how many fit.
  std::uint8_t* room() { return band_.data() + filled_ * size_.columns * channels_; }
  std::int64_t rows_left() const { return std::min(tile_ - filled_, size_.rows - top_ - filled_); }
  std::int64_t next() const { return top_ + filled_; }
  bool full() const { return rows_left() == 0; }
  void filled(std::int64_t rows) { filled_ += rows; }
  const std::uint8_t* row(std::int64_t i) const {
    return band_.data() + i * size_.columns * channels_;
  }
  std::int64_t rows() const { return filled_; }
  const Size& size() const { return size_; }

  void write(const fs::path& path) {
    FileBytes tile(static_cast<std::size_t>(tile_ * tile_ * channels_));
    const std::int64_t across = (size_.columns + tile_ - 1) / tile_;
    for (std::int64_t c = 0; c < across; ++c) {
      // Beyond the slide's edge its last pixels go on, so that no false edge is compressed.
      const std::int64_t wide = std::min(tile_, size_.columns - c * tile_);
      for (std::int64_t y = 0; y < tile_; ++y) {
        const std::uint8_t* from = row(std::min(y, filled_ - 1)) + c * tile_ * channels_;
        std::uint8_t* to = tile.data() + y * tile_ * channels_;
        std::memcpy(to, from, static_cast<std::size_t>(wide * channels_));
        for (std::int64_t x = wide; x < tile_; ++x)
          std::memcpy(to + x * channels_, from + (wide - 1) * channels_,
                      static_cast<std::size_t>(channels_));
      }
      const auto number = static_cast<std::uint32_t>(top_ / tile_ * across + c);
      if (TIFFWriteEncodedTile(file_.get(), number, tile.data(),
                               static_cast<tmsize_t>(tile.size())) < 0)
        throw IoError("cannot write " + path.string() + ": " + file_.said());
    }
    top_ += filled_;
    filled_ = 0;
  }

 private:
  TiffFile& file_;
  const Size size_;
  const std::int64_t channels_, tile_;
  FileBytes band_;
  std::int64_t top_ = 0, filled_ = 0;
};

// The even rows of `from`'s band, and those after them, as half as many rows of `to`.
void halve(const Level& from, Level& to, std::int64_t first, std::int64_t rows,
           std::int64_t channels, bool nearest) {
  for (std::int64_t y = 0; y < rows; ++y) {
    const std::uint8_t* a = from.row(2 * (first + y));
    const std::uint8_t* b = from.row(2 * (first + y) + 1);
    std::uint8_t* out = to.room() + y * to.size().columns * channels;
    for (std::int64_t x = 0; x < to.size().columns; ++x)
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t i = 2 * x * channels + c, j = i + channels;
        const int sum = a[i] + a[j] + b[i] + b[j], low = sum / 4, rest = sum % 4;
        *out++ =
            nearest ? a[i] : static_cast<std::uint8_t>(low + (rest > 2 || (rest == 2 && low % 2)));
      }
  }
}

// Copies the tiles of a written level as they are, as one more page.
void append(const TiffFile& to, const fs::path& from, const Size& size, std::int64_t channels,
            const SlideFormat& format, std::size_t level) {
  const int fd = open_to_read(from.c_str());
  if (fd < 0) fail_io("open", from, errno);
  {
    const TiffFile source(fd, from.string());
    set_tags(to.get(), size, channels, format, level);
    std::uint32_t bytes = 0;
    void* tables = nullptr;
    if (TIFFGetField(source.get(), TIFFTAG_JPEGTABLES, &bytes, &tables) == 1)
      TIFFSetField(to.get(), TIFFTAG_JPEGTABLES, bytes, tables);
    FileBytes raw;
    for (std::uint32_t n = 0; n < TIFFNumberOfTiles(source.get()); ++n) {
      const auto size_of = static_cast<std::size_t>(TIFFGetStrileByteCount(source.get(), n));
      if (raw.size() < size_of) raw = FileBytes(size_of * 2);
      const auto length = static_cast<tmsize_t>(size_of);
      if (TIFFReadRawTile(source.get(), n, raw.data(), length) != length ||
          TIFFWriteRawTile(to.get(), n, raw.data(), length) != length)
        throw IoError("cannot copy a tile of " + from.string());
    }
  }
  ::close(fd);
}

}  // namespace

bool needs_big_tiff(std::int64_t rows, std::int64_t columns, std::int64_t channels,
                    const SlideFormat& f) {
  constexpr double most = 3e9;  // below 4 GiB by what a compression may add
  const auto whole = [&](std::int64_t n) {
    return static_cast<double>((n + f.tile - 1) / f.tile * f.tile);
  };
  double bytes = 0;
  for (const Size& level : level_sizes(rows, columns, f))
    bytes += whole(level.rows) * whole(level.columns) * static_cast<double>(channels);
  return bytes > most;
}

void write_slide(const fs::path& path, std::int64_t rows, std::int64_t columns,
                 std::int64_t channels, const SlideFormat& f, const SlideRows& fill) {
  if (channels != 1 && channels != 3)
    throw DataError(path.string() + ": a slide has 1 channel or 3, not " +
                    std::to_string(channels));
  if (rows < 1 || columns < 1 || f.tile < 16 || f.tile % 16 != 0)
    throw DataError(path.string() + ": a slide has pixels, and tiles of a multiple of 16");
  const std::vector<Size> sizes = level_sizes(rows, columns, f);
  if (has_more(sizes, f))
    throw DataError(path.string() + ": " + std::to_string(rows) + " x " + std::to_string(columns) +
                    " pixels have fewer than " + std::to_string(f.levels) + " levels");
  if (!path.parent_path().empty()) fs::create_directories(path.parent_path());
  const char* mode = needs_big_tiff(rows, columns, channels, f) ? "w8" : "w";
  std::vector<std::unique_ptr<NewFile>> names;
  std::vector<std::unique_ptr<TiffFile>> files;
  std::vector<Level> levels;
  levels.reserve(sizes.size());
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    names.push_back(std::make_unique<NewFile>(path.string() + ".level" + std::to_string(l)));
    files.push_back(std::make_unique<TiffFile>(names[l]->path(), mode));
    set_tags(files[l]->get(), sizes[l], channels, f, l);
    levels.emplace_back(*files[l], sizes[l], channels, f);
  }
  // A band that is full goes to the level below it before it is written.
  const std::function<void(std::size_t)> finish = [&](std::size_t l) {
    if (l + 1 < levels.size()) {
      Level& below = levels[l + 1];
      const std::int64_t halved = std::min(levels[l].rows() / 2, below.size().rows - below.next());
      for (std::int64_t done = 0; done < halved;) {
        const std::int64_t n = std::min(halved - done, below.rows_left());
        halve(levels[l], below, done, n, channels, f.nearest);
        below.filled(n);
        done += n;
        if (below.full()) finish(l + 1);
      }
    }
    levels[l].write(path);
  };
  while (levels[0].next() < rows) {
    const std::int64_t n = levels[0].rows_left();
    fill(levels[0].next(), n, levels[0].room());
    levels[0].filled(n);
    finish(0);
  }
  for (std::size_t l = 1; l < files.size(); ++l) {
    files[l]->close();
    if (TIFFWriteDirectory(files[0]->get()) != 1)
      throw IoError("cannot write " + path.string() + ": " + files[0]->said());
    append(*files[0], names[l]->path(), sizes[l], channels, f, l);
  }
  files[0]->close();
  names[0]->become(path);
}

}  // namespace sluice
