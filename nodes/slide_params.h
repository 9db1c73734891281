// How nodes that read slides are told to.
#pragma once

#include <limits>

#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/files/slide.h"
#include "nodes/fields.h"

namespace sluice {

struct SlideParams {
  std::string backend = "auto";
  std::int64_t tile_cache_mb = 256, slides_open = 8;
  std::int64_t level = 0;
  std::optional<double> mpp;
};

template <class Params>
Spec& add_slide_params(Spec& s) {
  return s.param("level", &Params::level, "The level of the slide, 0 the largest.")
      .at_least(0)
      .param("mpp", &Params::mpp,
             "Instead of a level: micrometres a pixel; the level that has them within 5 %.")
      .above(0)
      .param("backend", &Params::backend,
             "auto: .tif, .tiff, .btf and .tf8 by Sluice's own reader, all others by the OpenSlide "
             "library where it is installed.")
      .choices(slide_backends)
      .param("tile_cache_mb", &Params::tile_cache_mb, "MiB of decoded tiles that are kept.")
      .range(0, 1 << 20)
      .param("slides_open", &Params::slides_open, "Slides that are kept open.")
      .range(1, 256);
}

// Of a file with several levels that is written.
template <class Params>
Spec& add_pyramid_params(Spec& s) {
  return s.param("tile", &Params::tile, "Rows and columns of a tile, a multiple of 16.")
      .range(16, 4096)
      .param("levels", &Params::levels, "How many; 0: until one tile holds all.")
      .range(0, 20);
}

inline std::unique_ptr<SlideReader> slide_reader(const SlideParams& p) {
  return std::make_unique<SlideReader>(p.backend, static_cast<std::size_t>(p.tile_cache_mb) << 20,
                                       static_cast<std::size_t>(p.slides_open));
}

inline std::int64_t level_of(const Slide& slide, const SlideParams& p) {
  const std::int64_t level = p.mpp ? slide.level_at(*p.mpp) : p.level;
  slide.level(level);
  return level;
}

// [rows, columns, 1 or 3] as [C, rows, columns]; grey becomes three equal colours.
inline at::Tensor channels_first(const at::Tensor& pixels, std::int64_t channels,
                                 const Slide& slide) {
  if (channels == 1 && pixels.size(2) != 1)
    throw DataError(slide.path() + ": is in colour; channels is 1");
  return pixels.permute({2, 0, 1}).expand({channels, -1, -1}).contiguous();
}

inline const std::string& slide_path(const Sample& sample, const std::string& key) {
  const std::string& path = sample.at(key).geometry().path;
  if (path.empty()) throw DataError("field \"" + key + "\" has no path of a slide");
  return path;
}

// A slide that is read for places only: the record without a tensor.
inline Field with_path(at::Tensor tensor, const std::string& path) {
  auto meta = std::make_shared<Meta>();
  meta->path = path;
  return Field(std::move(tensor), std::move(meta));
}

}  // namespace sluice
