// Slides of pathology: pictures of gigapixels, stored in tiles at several sizes, of which regions
// are read.
//
// Invariant: a region is uint8 [rows, columns, channels]; pixels outside of the slide have the
// value `outside`. Whatever a decoder only warns of is a DataError that names the file, the level
// and the tile, so a damaged tile never comes back as a picture. Memory is bounded by the budget of
// the tile cache, however large the slide is. All members may be called from any thread.
//
//   SlideReader ─┬─ slides that are open (the least recently read is closed first)
//                └─ TileCache: decoded tiles, one budget for all slides
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernels/files/tile_cache.h"

namespace sluice {

struct SlideLevel {
  std::int64_t rows = 0, columns = 0;
  double downsample = 1;  // pixels of level 0 a pixel of this one, mean of both axes
};

class Slide {
 public:
  virtual ~Slide() = default;
  const std::string& path() const { return path_; }
  const std::vector<SlideLevel>& levels() const { return levels_; }
  // Throws DataError with the levels that there are.
  const SlideLevel& level(std::int64_t number) const;
  std::int64_t channels() const { return channels_; }  // 1 or 3
  // Micrometres a pixel of level 0; nothing where the file does not say.
  std::optional<double> mpp() const { return mpp_; }
  // The level whose micrometres a pixel differ by at most 5 % (MONAI's WSIReader, mpp_rtol 0.05).
  std::int64_t level_at(double mpp) const;

  // rows x columns pixels of a level from (top, left), in pixels of level 0; at a higher level it
  // is rounded to that level's pixels, half to even.
  virtual at::Tensor read(std::int64_t level, std::int64_t top, std::int64_t left,
                          std::int64_t rows, std::int64_t columns, std::uint8_t outside) = 0;

 protected:
  std::string path_;
  std::vector<SlideLevel> levels_;
  std::int64_t channels_ = 3;
  std::optional<double> mpp_;
};

// Tiled TIFF, classic and BigTIFF, of 8 bits, grey or RGB: none, LZW, deflate or JPEG.
std::unique_ptr<Slide> open_tiff_slide(const std::filesystem::path& path,
                                       std::shared_ptr<TileCache> cache);
// What the OpenSlide library reads (.svs, .ndpi, .mrxs, .scn, .bif, ...), where it is installed.
std::unique_ptr<Slide> open_openslide(const std::filesystem::path& path);

// "auto": .tif, .tiff, .btf and .tf8 by our own reader, all others by OpenSlide.
inline const std::vector<std::string> slide_backends{"auto", "tiff", "openslide"};

class SlideReader {
 public:
  explicit SlideReader(std::string backend = "auto", std::size_t tile_cache_bytes = 256 << 20,
                       std::size_t slides_open = 8)
      : backend_(std::move(backend)),
        slides_open_(slides_open),
        cache_(std::make_shared<TileCache>(tile_cache_bytes)) {}
  std::shared_ptr<Slide> open(const std::string& path);

 private:
  const std::string backend_;
  const std::size_t slides_open_;
  const std::shared_ptr<TileCache> cache_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Slide>> open_;  // the most recently asked for first
};

// How a slide is written: tiled, each level half of the one before it.
struct SlideFormat {
  std::int64_t tile = 256;           // a multiple of 16
  std::int64_t levels = 0;           // 0: until one tile holds all
  std::string compression = "jpeg";  // jpeg (RGB stored as YCbCr 4:2:0), deflate, lzw or none
  std::int64_t quality = 90;         // of jpeg
  bool nearest = false;              // a pixel of the next level: of four the first, or their
                                     // mean, rounded half to even
  std::optional<double> mpp;         // micrometres a pixel of level 0
};
inline const std::vector<std::string> slide_compressions{"jpeg", "deflate", "lzw", "none"};

// Fills `rows` rows of `columns` pixels from row `top` on; called from the top down, once a row.
using SlideRows = std::function<void(std::int64_t top, std::int64_t rows, std::uint8_t* pixels)>;
// Whether its tiles, which are whole at the edges too, may not fit into the 4 GiB of a classic
// TIFF.
bool needs_big_tiff(std::int64_t rows, std::int64_t columns, std::int64_t channels,
                    const SlideFormat& format);
// A BigTIFF where it needs one. Never holds more than a row of tiles of each level; the
// smaller levels wait in files beside it. See file_io.h for what a failure leaves behind.
void write_slide(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns,
                 std::int64_t channels, const SlideFormat& format, const SlideRows& fill);

}  // namespace sluice
