// Fields that are lists of rows (clicks, slice numbers, landmarks), -1 where a row holds nothing.
// `batch` fills up shorter ones with -1, since samples have different numbers of rows.
//
// A drawn list knows the draws of the sample that it was drawn for, so that what is drawn for a
// member of a batch depends neither on the batch's size nor on the member's place in it.
#pragma once

#include <ATen/Functions.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/sample.h"

namespace sluice {

inline const char* const list_mark = "list";

inline Field list_field(at::Tensor rows, std::optional<std::uint64_t> draws = {}) {
  auto meta = std::make_shared<Meta>();
  Applied mark{list_mark, identity_affine, {}, {}};
  if (draws)
    mark.values = {static_cast<double>(*draws >> 32), static_cast<double>(*draws & 0xffffffffu)};
  meta->history.push_back(std::move(mark));
  return {std::move(rows), std::move(meta)};
}

inline bool is_list(const Meta& meta) {
  return !meta.history.empty() && meta.history.front().transform == list_mark;
}
inline std::optional<std::uint64_t> draws_of(const Meta& meta) {
  if (!is_list(meta) || meta.history.front().values.size() != 2) return std::nullopt;
  const std::vector<double>& halves = meta.history.front().values;
  return static_cast<std::uint64_t>(halves.at(0)) << 32 | static_cast<std::uint64_t>(halves.at(1));
}

// One below the other as a batch, the shorter ones filled up with -1.
inline at::Tensor stacked_lists(std::span<const at::Tensor> lists) {
  std::vector<std::int64_t> sizes = lists.front().sizes().vec();
  for (const at::Tensor& t : lists) {
    if (t.dim() != std::ssize(sizes))
      throw DataError("lists have " + std::to_string(sizes.size()) + " and " +
                      std::to_string(t.dim()) + " axes");
    for (std::size_t d = 0; d < sizes.size(); ++d)
      sizes[d] = std::max(sizes[d], t.size(static_cast<std::int64_t>(d)));
  }
  sizes.insert(sizes.begin(), std::ssize(lists));
  at::Tensor out = at::full(sizes, -1, lists.front().options());
  for (std::size_t i = 0; i < lists.size(); ++i) {
    at::Tensor room = out[static_cast<std::int64_t>(i)];
    for (std::int64_t d = 0; d < lists[i].dim(); ++d) room = room.narrow(d, 0, lists[i].size(d));
    room.copy_(lists[i]);
  }
  return out;
}

}  // namespace sluice
