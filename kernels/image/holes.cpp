#include "kernels/image/holes.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/into.h"
#include "kernels/image/float_image.h"

namespace sluice {
namespace {

void fill(float* out, std::int64_t first, std::int64_t n, const HoleFilling& f) {
  const float range = f.high - f.low;
  if (range == 0) {
    std::fill(out + first, out + first + n, f.low);
    return;
  }
  Block4 block{};
  for (std::int64_t i = first; i < first + n; ++i) {
    if (i == first || i % 4 == 0)
      block = philox(static_cast<std::uint64_t>(i / 4), f.stream.counter_high, f.stream.key);
    out[i] = f.low + range * unit_float(block.v[i % 4]);
  }
}

at::Tensor part(at::Tensor t, const Box& box) {
  for (std::int64_t d = 0; d < 3; ++d)
    t = t.narrow(d + 1, box.start[static_cast<std::size_t>(d)],
                 box.size[static_cast<std::size_t>(d)]);
  return t;
}

// What is not filled is the volume's, also where float32 does not hold it.
at::Tensor of_own_type(const at::Tensor& volume, const at::Tensor& filled,
                       const std::vector<Box>& boxes, bool inside) {
  if (volume.scalar_type() == at::kFloat) return filled;
  const at::Tensor out = inside ? volume.clone() : filled.to(volume.scalar_type());
  for (const Box& box : boxes) part(out, box).copy_(part(inside ? filled : volume, box));
  return out;
}

}  // namespace

at::Tensor fill_holes_in(const at::Tensor& volume, const std::vector<Box>& boxes, bool inside,
                         const HoleFilling& filling, const at::Tensor& into) {
  const at::Tensor source = kernels::float_image(volume);
  at::Tensor result = room(into, source.sizes(), source.options());
  const float* in = source.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  const Shape3 n = shape_of(source);
  if (inside && out != in)
    std::memcpy(out, in, static_cast<std::size_t>(source.numel()) * sizeof(float));
  else if (!inside)
    fill(out, 0, source.numel(), filling);
  for (const Box& box : boxes)
    for (std::int64_t c = 0; c < source.size(0); ++c)
      for (std::int64_t x = box.start[0]; x < box.start[0] + box.size[0]; ++x)
        for (std::int64_t y = box.start[1]; y < box.start[1] + box.size[1]; ++y) {
          const std::int64_t at = ((c * n[0] + x) * n[1] + y) * n[2] + box.start[2];
          if (inside)
            fill(out, at, box.size[2], filling);
          else
            std::memcpy(out + at, in + at, static_cast<std::size_t>(box.size[2]) * sizeof(float));
        }
  return of_own_type(volume, result, boxes, inside);
}

}  // namespace sluice
