// What the record sources share: from a list of files to records, in order or shuffled.
//
// Invariant: an item's number means the same files in every epoch, whatever the order.
#pragma once

#include "engine/registry.h"
#include "engine/sample.h"
#include "kernels/data_list.h"

namespace sluice {

// A sample whose fields hold paths only: what a source sends to load_image.
inline Sample record_of(const DataItem& item) {
  Sample sample;
  sample.name = item.name;
  for (const auto& [key, path] : item.files) {
    auto meta = std::make_shared<Meta>();
    meta->path = path;
    sample.fields().emplace_back(key, Field(at::Tensor(), std::move(meta)));
  }
  return sample;
}

inline SamplePtr record_at(const DataList& list, std::uint64_t item) {
  return std::make_shared<const Sample>(record_of(list.at(item)));
}

// One firing of a source over `list`; shuffled by the epoch's own permutation.
inline void emit_listed(Firing& f, const DataList& list, bool shuffle) {
  const auto position = f.stamp().index;
  if (position >= list.size()) return f.end_epoch();
  const auto item = shuffle ? Permutation(list.size(), f.epoch_key())(position) : position;
  f.emit_item(item, record_of(list[item]));
}

}  // namespace sluice
