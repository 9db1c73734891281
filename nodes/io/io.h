// What the record sources share: from a list of files to records, in order or shuffled.
//
// Invariant: an item's number means the same files in every epoch, whatever the order.
#pragma once

#include <variant>

#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/lists/data_list.h"

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

// The order of every source that shuffles; the engine deals by shard
// (engine/run/arranged_source.h).
template <class Params>
Spec& add_order_params(Spec& s) {
  return s.param("shuffle", &Params::shuffle, "A new order in every epoch.")
      .param("by_shard", &Params::by_shard,
             "With shuffle and run.shards K: the list is dealt out to K parts once, by run.seed, "
             "and each shard has the same part in every epoch, in a new order. So a process reads "
             "and caches its shards' parts alone; samples mix less.");
}

// One firing of a source of n items, whose samples `record_at_item` gives; shuffled by the epoch's
// own permutation.
template <class RecordAt>
void emit_in_order(Firing& f, std::uint64_t n, bool shuffle, RecordAt&& record_at_item) {
  const auto position = f.stamp().index;
  if (position >= n) return f.end_epoch();
  const std::uint64_t item = shuffle ? Permutation(n, f.epoch_key())(position) : position;
  f.make_item(item, [&] { return record_at_item(item); });
}

// A source of the files in `list`, which X::open fills; its Params have shuffle.
template <class X>
struct ListSource : Node {
  DataList list;

  void process(Firing& f) override {
    emit_in_order(f, list.size(), static_cast<const X&>(*this).p.shuffle,
                  [this](std::uint64_t i) { return item_record(i); });
  }
  SamplePtr item_record(std::uint64_t item) const override {
    return std::make_shared<const Sample>(record_of(list.at(item)));
  }
  std::optional<std::uint64_t> epoch_size() const override { return list.size(); }
};

// The order and the number of a source's records; a Spec sets members of the first base alone, so
// they are added to another one's.
template <class Base = std::monostate>
struct RecordParams : Base {
  bool shuffle = false, by_shard = false;
  std::optional<std::int64_t> limit;
};

template <class Params>
Spec& add_record_params(Spec& s, const char* limit = "Only the first n records.") {
  return add_order_params<Params>(s).param("limit", &Params::limit, limit).at_least(1).source();
}

// Cross-validation of a source whose Params are a Fold and say themselves what `split` may be.
// Its own Params give the defaults, so their members stand for Fold's.
template <class Params>
Spec& add_fold_params(Spec& s) {
  using Number = std::int64_t Params::*;
  return s
      .param(
          "fold", Number{&Params::fold},
          "Which of the folds of scikit-learn's KFold(folds, shuffle=True, random_state=seed) is "
          "the validation; -1: none.")
      .at_least(-1)
      .param("folds", Number{&Params::folds}, "How many folds.")
      .at_least(2)
      .param("seed", Number{&Params::seed}, "Seed of the split; not of the run.")
      .range(0, 4294967295.0);
}

// Of one that has no other split.
template <class Params>
Spec& add_split_params(Spec& s) {
  s.param("split", &Params::split, "Which part of a fold.").choices({"training", "validation"});
  return add_fold_params<Params>(s);
}

}  // namespace sluice
