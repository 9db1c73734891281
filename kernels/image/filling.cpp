#include "kernels/image/filling.h"

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
    case Filling::edge:
    case Filling::constant:
      break;
  }
  return std::clamp<std::int64_t>(i, 0, n - 1);
}

}  // namespace

Filling parse_filling(const std::string& name) {
  if (name == "constant") return Filling::constant;
  if (name == "edge" || name == "replicate") return Filling::edge;
  if (name == "reflect") return Filling::reflect;
  if (name == "symmetric") return Filling::symmetric;
  if (name == "wrap" || name == "circular") return Filling::wrap;
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
  return pick(volume, picks_of(box, n, filling));
}

}  // namespace sluice
