#include "kernels/lists/numpy_random.h"

#include <bit>
#include <numeric>

namespace sluice {

std::uint32_t NumpyRandom::interval(std::uint32_t max) {
  if (max == 0) return 0;
  const std::uint32_t mask = 0xffffffffu >> std::countl_zero(max);
  for (;;)
    if (const auto value = static_cast<std::uint32_t>(twister_()) & mask; value <= max)
      return value;
}

double NumpyRandom::unit() {
  const auto high = static_cast<double>(twister_() >> 5),
             low = static_cast<double>(twister_() >> 6);
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

Split split_indices(std::size_t n, double validation_fraction, std::uint32_t seed) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  NumpyRandom(seed).shuffle(order);
  const auto cut =
      order.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(n) * validation_fraction);
  return {{cut, order.end()}, {order.begin(), cut}};
}

}  // namespace sluice
