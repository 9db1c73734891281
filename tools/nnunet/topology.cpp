#include "tools/nnunet/topology.h"

#include <algorithm>
#include <cmath>

namespace sluice::nnunet {
namespace {

constexpr double least_edge = 4;  // voxels that an axis keeps at the bottom

// The axes that are pooled next; none where the network ends.
std::vector<std::size_t> next_axes(const Reals& spacing, const Reals& size) {
  std::vector<std::size_t> large, near;
  for (std::size_t a = 0; a < size.size(); ++a)
    if (size[a] >= 2 * least_edge) large.push_back(a);
  if (large.empty()) return {};
  double least = spacing[large.front()];
  for (const std::size_t a : large) least = std::min(least, spacing[a]);
  for (const std::size_t a : large)
    if (spacing[a] / least < 2) near.push_back(a);
  if (near.size() == 1 && size[near.front()] < 3 * least_edge) return {};
  return near;
}

}  // namespace

Topology topology_of(const Reals& spacing, const Reals& patch) {
  const std::size_t dims = spacing.size();
  Reals at = spacing, size = patch;
  Ints kernel(dims, 1);
  Topology t{{Ints(dims, 1)}, {}, Ints(dims), Ints(dims, 1)};
  for (auto axes = next_axes(at, size); !axes.empty(); axes = next_axes(at, size)) {
    const double least = *std::min_element(at.begin(), at.end());
    for (std::size_t a = 0; a < dims; ++a)
      if (at[a] / least < 2) kernel[a] = 3;
    Ints stride(dims, 1);
    for (const std::size_t a : axes) {
      stride[a] = 2;
      t.divisor[a] *= 2;
      at[a] *= 2;
      size[a] = std::ceil(size[a] / 2);
    }
    t.strides.push_back(stride);
    t.kernels.push_back(kernel);
  }
  t.kernels.push_back(Ints(dims, 3));
  for (std::size_t a = 0; a < dims; ++a) {
    const double d = static_cast<double>(t.divisor[a]), rest = std::fmod(patch[a], d);
    t.patch[a] = static_cast<std::int64_t>(rest == 0 ? patch[a] : patch[a] + d - rest);
  }
  return t;
}

}  // namespace sluice::nnunet
