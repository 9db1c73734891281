#include "kernels/image/resizing.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "kernels/image/separable.h"
#include "kernels/image/spatial.h"

namespace sluice {
namespace {

// Where voxel i of `to` reads an axis of `from` voxels: torch's float32 formulas.
struct Scale {
  float step;
  bool align_corners;
  Scale(std::int64_t from, std::int64_t to, bool align)
      : step(!align   ? static_cast<float>(from) / static_cast<float>(to)
             : to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                      : 0),
        align_corners(align) {}
  float at(std::int64_t i) const {
    const float x = static_cast<float>(i);
    return align_corners ? step * x : step * (x + 0.5f) - 0.5f;
  }
};

Band band_of(std::int64_t size, int taps) {
  const auto n = static_cast<std::size_t>(size * taps);
  return {size, taps, std::vector<std::int32_t>(n), std::vector<float>(n), {}};
}

Band linear_band(std::int64_t from, std::int64_t to, bool align) {
  Band band = band_of(to, 2);
  const Scale scale(from, to, align);
  for (std::int64_t i = 0; i < to; ++i) {
    const float at = std::max(scale.at(i), 0.0f);
    const auto cell = std::min(static_cast<std::int64_t>(at), from - 1);
    const float share = std::clamp(at - static_cast<float>(cell), 0.0f, 1.0f);
    band.cell[i] = static_cast<std::int32_t>(cell);
    band.cell[to + i] = static_cast<std::int32_t>(std::min(cell + 1, from - 1));
    band.weight[i] = 1 - share;
    band.weight[to + i] = share;
  }
  return band;
}

// Keys' cubic convolution (1981) with a = -0.75.
Band cubic_band(std::int64_t from, std::int64_t to, bool align) {
  constexpr float a = -0.75f;
  const auto near = [](float x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](float x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  Band band = band_of(to, 4);
  const Scale scale(from, to, align);
  for (std::int64_t i = 0; i < to; ++i) {
    const float at = scale.at(i), cell = std::min(std::floor(at), static_cast<float>(from - 1));
    const float t = std::clamp(at - cell, 0.0f, 1.0f);
    const float weights[]{far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (std::int64_t k = 0; k < 4; ++k) {
      const auto voxel = static_cast<std::int64_t>(cell) - 1 + k;
      band.cell[k * to + i] =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(voxel, 0, from - 1));
      band.weight[k * to + i] = weights[k];
    }
  }
  return band;
}

// Voxels floor(i from / to) up to ceil((i + 1) from / to), all with the same weight.
Band area_band(std::int64_t from, std::int64_t to) {
  const auto first = [&](std::int64_t i) { return i * from / to; };
  const auto end = [&](std::int64_t i) { return ((i + 1) * from + to - 1) / to; };
  std::int64_t taps = 1;
  for (std::int64_t i = 0; i < to; ++i) taps = std::max(taps, end(i) - first(i));
  Band band = band_of(to, static_cast<int>(taps));
  for (std::int64_t i = 0; i < to; ++i)
    for (std::int64_t t = 0; t < taps; ++t) {
      const std::int64_t count = end(i) - first(i);
      band.cell[t * to + i] = static_cast<std::int32_t>(first(i) + std::min(t, count - 1));
      band.weight[t * to + i] = t < count ? 1 / static_cast<float>(count) : 0;
    }
  return band;
}

std::vector<std::int32_t> nearest_picks(std::int64_t from, std::int64_t to, float centre) {
  const Scale scale(from, to, false);
  std::vector<std::int32_t> picks(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i)
    picks[i] = std::min(
        static_cast<std::int32_t>(std::floor((static_cast<float>(i) + centre) * scale.step)),
        static_cast<std::int32_t>(from - 1));
  return picks;
}

Band band(Resizing mode, std::int64_t from, std::int64_t to, bool align) {
  if (from == to) return keep_axis(from);
  if (mode == Resizing::area) return area_band(from, to);
  return mode == Resizing::cubic ? cubic_band(from, to, align) : linear_band(from, to, align);
}

// What resize() does, without voxels: bands, or (of the nearest modes) picks.
struct Plan {
  Bands bands;
  Picks picks;
  bool nearest;
};

Plan plan(const Shape3& from, const Shape3& shape, Resizing mode, bool align_corners) {
  for (int d = 0; d < 3; ++d)
    if (shape[d] < 1) throw DataError("a volume cannot be resized to an empty axis");
  if (mode == Resizing::cubic && (from[2] > 1 || shape[2] > 1))
    throw DataError("bicubic is for images of two axes");
  Plan p;
  p.nearest = mode == Resizing::nearest || mode == Resizing::nearest_exact;
  for (int d = 0; d < 3; ++d)
    if (p.nearest)
      p.picks[d] = nearest_picks(from[d], shape[d], mode == Resizing::nearest ? 0 : 0.5f);
    else
      p.bands[d] = band(mode, from[d], shape[d], align_corners);
  return p;
}

}  // namespace

Resizing parse_resizing(const std::string& name) {
  if (name == "area") return Resizing::area;
  if (name == "nearest") return Resizing::nearest;
  if (name == "nearest-exact") return Resizing::nearest_exact;
  if (name == "linear" || name == "bilinear" || name == "trilinear") return Resizing::linear;
  if (name == "bicubic") return Resizing::cubic;
  throw DataError("mode \"" + name + "\" is no way to resize");
}

at::Tensor resize(const at::Tensor& volume, const Shape3& shape, Resizing mode, bool align_corners,
                  bool parallel) {
  const Plan p = plan(shape_of(volume), shape, mode, align_corners);
  return p.nearest ? pick(volume, p.picks, 0, parallel) : map_axes(volume, p.bands, parallel);
}

at::Tensor resize(const at::Tensor& volume, const Shape3& shape, Resizing mode, bool align_corners,
                  const Picks& picks, const at::Tensor& into) {
  Plan p = plan(shape_of(volume), shape, mode, align_corners);
  for (int d = 0; d < 3; ++d) {
    if (!p.nearest) {
      p.bands[d] = picked(p.bands[d], picks[d]);
      continue;
    }
    std::vector<std::int32_t> voxels;
    for (const std::int32_t i : picks[d]) voxels.push_back(p.picks[d][i]);
    p.picks[d] = std::move(voxels);
  }
  return p.nearest ? pick(volume, p.picks, 0, false, into) : map_axes(volume, p.bands, false, into);
}

Affine resize_affine(const Shape3& source, const Shape3& shape, bool align_corners) {
  if (source == shape) return scaling({1, 1, 1});
  Vec3 scale, shift{};
  for (int d = 0; d < 3; ++d) {
    const double from = static_cast<double>(source[d]), to = static_cast<double>(shape[d]);
    scale[d] = !align_corners ? from / to : to > 1 ? (from - 1) / (to - 1) : 0;
    if (!align_corners) shift[d] = (scale[d] - 1) / 2;
  }
  // The third axis of a flat image is no axis: it keeps its size, also with align_corners.
  if (source[2] == 1 && shape[2] == 1) scale[2] = 1;
  return multiply(translation(shift), scaling(scale));
}

}  // namespace sluice
