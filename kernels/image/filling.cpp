#include "kernels/image/filling.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/base/error.h"

namespace sluice {
namespace {

// The voxel of an axis of n that stands at i, which may be far outside.
std::int64_t filled(std::int64_t i, std::int64_t n, Filling filling) {
  const auto modulo = [](std::int64_t a, std::int64_t b) { return (a % b + b) % b; };
  switch (filling) {
    case Filling::reflect: {
      if (n == 1) return 0;
      const std::int64_t at = modulo(i, 2 * (n - 1));
      return std::min(at, 2 * (n - 1) - at);
    }
    case Filling::symmetric: {
      const std::int64_t at = modulo(i, 2 * n);
      return std::min(at, 2 * n - 1 - at);
    }
    case Filling::wrap:
      return modulo(i, n);
    default:
      break;
  }
  return std::clamp<std::int64_t>(i, 0, n - 1);
}

// A later axis is filled with the extremes of what the earlier ones have got, as in numpy.
at::Tensor filled_with_extremes(at::Tensor x, const Box& box, bool least) {
  for (int d = 0; d < 3; ++d) {
    const std::int64_t axis = d + 1, n = x.size(axis), end = box.start[d] + box.size[d];
    const std::int64_t before = std::min(std::max<std::int64_t>(-box.start[d], 0), box.size[d]);
    const std::int64_t after = std::min(std::max<std::int64_t>(end - n, 0), box.size[d]);
    const std::int64_t from = std::clamp<std::int64_t>(box.start[d], 0, n);
    const at::Tensor extreme = least ? x.amin(axis, true) : x.amax(axis, true);
    const auto rim = [&](std::int64_t width) {
      auto sizes = x.sizes().vec();
      sizes[static_cast<std::size_t>(axis)] = width;
      return extreme.expand(sizes);
    };
    x = at::cat({rim(before), x.narrow(axis, from, box.size[d] - before - after), rim(after)},
                axis);
  }
  return x;
}

}  // namespace

bool repeats_voxels(Filling filling) {
  return filling == Filling::edge || filling == Filling::reflect || filling == Filling::symmetric ||
         filling == Filling::wrap;
}

Filling parse_filling(const std::string& name) {
  if (name == "constant") return Filling::constant;
  if (name == "edge" || name == "replicate") return Filling::edge;
  if (name == "reflect") return Filling::reflect;
  if (name == "symmetric") return Filling::symmetric;
  if (name == "wrap" || name == "circular") return Filling::wrap;
  if (name == "minimum") return Filling::minimum;
  if (name == "maximum") return Filling::maximum;
  throw DataError("\"" + name + "\" is no way to fill a pad");
}

Picks picks_of(const Box& box, const Shape3& n, Filling filling) {
  Picks picks;
  for (int d = 0; d < 3; ++d)
    for (std::int64_t i = 0; i < box.size[d]; ++i)
      picks[d].push_back(static_cast<std::int32_t>(filled(box.start[d] + i, n[d], filling)));
  return picks;
}

at::Tensor crop_pad(const at::Tensor& volume, const Box& box, Filling filling, double value) {
  const Shape3 n = shape_of(volume);
  bool inside = true;
  for (int d = 0; d < 3; ++d) inside &= box.start[d] >= 0 && box.start[d] + box.size[d] <= n[d];
  if (inside || filling == Filling::constant) return crop_pad(volume, box, value);
  if (!repeats_voxels(filling))
    return filled_with_extremes(volume, box, filling == Filling::minimum);
  return pick(volume, picks_of(box, n, filling));
}

}  // namespace sluice
