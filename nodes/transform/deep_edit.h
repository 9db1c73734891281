// DeepEdit's transforms: clicks on each of several labels. Guidance is int32
// [labels, rows, 1 + axes], a list of clicks a label in the order of `labels`.
#pragma once

#include <ATen/Functions.h>

#include <string>
#include <vector>

#include "engine/run/registry.h"
#include "kernels/image/clicks.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/one_channel.h"

namespace sluice {

struct DeepEditParams {
  std::string label = "label";
  std::vector<std::int64_t> labels;
};

template <class P>
Spec& add_deep_edit_params(Spec& s) {
  return s.in("sample")
      .out("sample")
      .param("label", &P::label, "The labels, one channel.")
      .param(
          "labels", &P::labels,
          "The labels' numbers, the background's too: [0, 1, 2]. Each has a list of clicks and a "
          "channel, in this order.")
      .required()
      .length(1);
}

// [1, X, Y, Z] or [1, X, Y] of a mask -> sites of a click.
inline std::vector<ClickSite> sites_in(const at::Tensor& mask) {
  return click_sites(to_volume(mask)[0].contiguous());
}

using ClickRows = std::vector<std::vector<std::int32_t>>;  // the clicks of a label

// A tensor of all labels' lists, the shorter ones filled up with -1.
inline at::Tensor lists_of(const std::vector<ClickRows>& all, std::int64_t width) {
  std::size_t rows = 0;
  for (const ClickRows& one : all) rows = std::max(rows, one.size());
  at::Tensor out =
      at::full({std::ssize(all), static_cast<std::int64_t>(rows), width}, -1, at::kInt);
  for (std::size_t k = 0; k < all.size(); ++k) {
    auto* to = out.mutable_data_ptr<std::int32_t>() + k * rows * static_cast<std::size_t>(width);
    for (const auto& row : all[k]) to = std::copy(row.begin(), row.end(), to);
  }
  return out;
}

}  // namespace sluice
