#include "kernels/image/components.h"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "engine/base/error.h"
#include "kernels/image/union_find.h"

namespace sluice {
namespace {

using Run = Components::Run;

Shape3 shape_of(const at::Tensor& mask) { return {mask.size(0), mask.size(1), mask.size(2)}; }

// Marks the runs of the components for which `kept` holds.
template <class Kept>
at::Tensor painted(const at::Tensor& mask, const Components& found, Kept&& kept) {
  at::Tensor out = at::zeros_like(mask);
  auto* p = static_cast<std::uint8_t*>(out.mutable_data_ptr());
  for (const Run& r : found.runs)
    if (kept(r.component))
      std::fill(p + r.row * mask.size(2) + r.begin, p + r.row * mask.size(2) + r.end, 1);
  return out;
}

}  // namespace

Components find_components(const at::Tensor& mask, int connectivity) {
  return find_components(static_cast<const std::uint8_t*>(mask.const_data_ptr()), shape_of(mask),
                         connectivity);
}

at::Tensor numbered_components(const at::Tensor& map, int connectivity) {
  const at::Tensor values = map.to(at::kDouble).contiguous();
  if (values.numel() > std::numeric_limits<std::int32_t>::max())
    throw DataError("a map of " + std::to_string(values.numel()) + " voxels has too many");
  const double* v = values.const_data_ptr<double>();
  const Shape3 n = shape_of(values);
  at::Tensor out = at::zeros(values.sizes(), at::kInt);
  std::int32_t* number = out.mutable_data_ptr<std::int32_t>();
  std::vector<std::int32_t> parent(static_cast<std::size_t>(values.numel()));
  std::iota(parent.begin(), parent.end(), 0);
  // A voxel and those neighbours that come before it in memory.
  const auto each_before = [&](std::int64_t x, std::int64_t y, std::int64_t z, const auto& f) {
    for (std::int64_t dx = -1; dx <= 0; ++dx)
      for (std::int64_t dy = -1; dy <= (dx < 0 ? 1 : 0); ++dy)
        for (std::int64_t dz = -1; dz <= (dx < 0 || dy < 0 ? 1 : -1); ++dz)
          if (std::abs(dx) + std::abs(dy) + std::abs(dz) <= connectivity && x + dx >= 0 &&
              y + dy >= 0 && y + dy < n[1] && z + dz >= 0 && z + dz < n[2])
            f(((x + dx) * n[1] + y + dy) * n[2] + z + dz);
  };
  std::int64_t i = 0;
  for (std::int64_t x = 0; x < n[0]; ++x)
    for (std::int64_t y = 0; y < n[1]; ++y)
      for (std::int64_t z = 0; z < n[2]; ++z, ++i)
        if (v[i] != 0)
          each_before(x, y, z, [&](std::int64_t j) {
            if (v[j] == v[i])
              unite(parent, static_cast<std::int32_t>(i), static_cast<std::int32_t>(j));
          });
  std::int32_t count = 0;
  for (std::int32_t at = 0; at < static_cast<std::int32_t>(parent.size()); ++at)
    if (v[at] != 0) {
      const std::int32_t first = root(parent, at);
      number[at] = first == at ? ++count : number[first];
    }
  return out;
}

at::Tensor largest_components(const at::Tensor& mask, int connectivity, std::int64_t count) {
  const Components found = find_components(mask, connectivity);
  const std::vector<bool> kept = found.largest(count);
  return painted(mask, found, [&](std::int32_t c) { return kept[c]; });
}

at::Tensor with_filled_holes(const at::Tensor& mask, int connectivity, std::int64_t axes) {
  const Shape3 n = shape_of(mask);
  const Components rest = find_components(at::logical_not(mask), connectivity);
  std::vector<bool> open(rest.size.size());
  for (const Run& r : rest.runs) {
    const std::int64_t x = r.row / n[1], y = r.row % n[1];
    const bool rim = x == 0 || x == n[0] - 1 || y == 0 || y == n[1] - 1;
    if (rim || (axes == 3 && (r.begin == 0 || r.end == n[2]))) open[r.component] = true;
  }
  return at::logical_not(
      painted(mask, rest, [&](std::int32_t c) { return static_cast<bool>(open[c]); }));
}

namespace {

// All values but 0, in rising order.
template <class T>
std::vector<c10::Scalar> values_of(const at::Tensor& map) {
  const at::Tensor values = map.contiguous();
  const T* v = values.const_data_ptr<T>();
  const T none = static_cast<T>(0);
  std::set<T> found;
  T last = none;
  for (std::int64_t i = 0; i < values.numel(); ++i)
    if (v[i] != last) found.insert(last = v[i]);  // neighbours are mostly alike
  found.erase(none);
  return {found.begin(), found.end()};
}

bool is_whole(const at::Tensor& map) { return at::isIntegralType(map.scalar_type(), true); }

bool holds(at::ScalarType type, std::int64_t label) {
  return at::scalar_tensor(label, at::kLong).to(type).item<std::int64_t>() == label;
}

}  // namespace

std::vector<c10::Scalar> labels_in(const at::Tensor& volume, bool one_hot,
                                   const std::optional<std::vector<std::int64_t>>& given) {
  if (!given && !one_hot)
    return AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, volume.scalar_type(),
                                      "labels", [&] { return values_of<scalar_t>(volume); });
  std::vector<c10::Scalar> labels;
  if (given) {
    for (const std::int64_t label : *given)
      if (one_hot || !is_whole(volume) || holds(volume.scalar_type(), label))
        labels.emplace_back(label);
    return labels;
  }
  for (std::int64_t c = 1; c < volume.size(0); ++c)
    if (volume[c].any().item<bool>()) labels.emplace_back(c);
  return labels;
}

at::Tensor mask_of(const at::Tensor& volume, bool one_hot, const c10::Scalar& label) {
  if (!one_hot) return at::eq(volume[0], label).to(at::kByte).contiguous();
  const auto channel = label.toLong();
  if (channel < 0 || channel >= volume.size(0))
    throw DataError("label " + std::to_string(channel) + " is none of " +
                    std::to_string(volume.size(0)) + " channels");
  return at::gt(volume[channel], 0).to(at::kByte).contiguous();
}

}  // namespace sluice
