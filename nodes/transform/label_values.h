// What keep_largest_connected_component and fill_holes share: which labels a map has, and their
// masks.
#pragma once

#include <ATen/Functions.h>

#include <optional>
#include <string>
#include <vector>

#include "nodes/transform/volumes.h"

namespace sluice {

// The labels to work on: those given, else all that occur but 0; of one-hot maps the channels.
inline std::vector<double> labels_in(const at::Tensor& volume, bool one_hot,
                                     const std::optional<std::vector<std::int64_t>>& given) {
  std::vector<double> labels;
  if (given) {
    labels.assign(given->begin(), given->end());
  } else if (one_hot) {
    for (std::int64_t c = 1; c < volume.size(0); ++c)
      if (volume[c].any().item<bool>()) labels.push_back(static_cast<double>(c));
  } else {
    const at::Tensor values = std::get<0>(at::_unique(volume.to(at::kDouble), true));
    for (std::int64_t i = 0; i < values.numel(); ++i)
      if (const double v = values[i].item<double>(); v != 0) labels.push_back(v);
  }
  return labels;
}

// [X, Y, Z] uint8.
inline at::Tensor mask_of(const at::Tensor& volume, bool one_hot, double label) {
  if (!one_hot) return at::eq(volume[0], label).to(at::kByte).contiguous();
  const auto channel = static_cast<std::int64_t>(label);
  if (channel < 0 || channel >= volume.size(0))
    throw DataError("label " + std::to_string(channel) + " is none of " +
                    std::to_string(volume.size(0)) + " channels");
  return at::gt(volume[channel], 0).to(at::kByte).contiguous();
}

// All coordinates, where nothing is said.
inline int connectivity_of(const std::optional<std::int64_t>& given, std::int64_t axes) {
  return static_cast<int>(std::min(given.value_or(axes), axes));
}

}  // namespace sluice
