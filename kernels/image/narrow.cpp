#include "kernels/image/narrow.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace sluice {
namespace {

constexpr std::int64_t block = 4096;

template <class T>
bool minus_zero(T v) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::is_floating_point_v<T> && std::bit_cast<Bits>(v) == Bits{1} << (8 * sizeof(T) - 1);
}

// Block by block, so that a volume that does not fit is given up early.
template <class Narrow, class T>
bool fits(const T* from, Narrow* to, std::int64_t n) {
  constexpr T low = std::numeric_limits<Narrow>::min(), high = std::numeric_limits<Narrow>::max();
  for (std::int64_t at = 0; at < n; at += block) {
    const std::int64_t end = std::min(at + block, n);
    int differ = 0;
#pragma omp simd reduction(| : differ)
    for (std::int64_t i = at; i < end; ++i) {
      const T inside = from[i] < low ? low : from[i] > high ? high : from[i];
      to[i] = static_cast<Narrow>(inside == inside ? inside : T{});
      // Not the bits of the two: g++ 12 makes a comparison of floats of that at -O3.
      differ |= static_cast<T>(to[i]) != from[i] || minus_zero(from[i]);
    }
    if (differ) return false;
  }
  return true;
}

template <class Narrow, class T>
at::Tensor as(const at::Tensor& t, at::ScalarType type) {
  at::Tensor out = at::empty(t.sizes(), type);
  return fits(t.const_data_ptr<T>(), out.mutable_data_ptr<Narrow>(), t.numel()) ? out
                                                                                : at::Tensor();
}

template <class T>
at::Tensor narrowest(const at::Tensor& t) {
  const at::Tensor bytes = as<std::uint8_t, T>(t, at::kByte);
  return bytes.defined() ? bytes : as<std::int16_t, T>(t, at::kShort);
}

}  // namespace

at::Tensor narrowed(const at::Tensor& t) {
  if (!t.defined() || !t.device().is_cpu() || (t.dim() != 3 && t.dim() != 4) || t.numel() == 0)
    return {};
  const at::Tensor volume = t.contiguous();
  switch (t.scalar_type()) {
    case at::kFloat:
      return narrowest<float>(volume);
    case at::kDouble:
      return narrowest<double>(volume);
    case at::kInt:
      return narrowest<std::int32_t>(volume);
    case at::kLong:
      return narrowest<std::int64_t>(volume);
    default:
      return {};
  }
}

}  // namespace sluice
