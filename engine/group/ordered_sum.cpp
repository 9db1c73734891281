#include "engine/group/ordered_sum.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <iterator>
#include <utility>

#include "engine/group/shards.h"

namespace sluice {
namespace {

// Pieces end where a cache line does, and are not so small that their number matters.
constexpr std::size_t grain = 4096;

std::size_t piece_of(std::size_t values, std::size_t ranks) {
  const std::size_t each = (values + ranks - 1) / ranks;
  return ranks == 1 ? values : (each + grain - 1) / grain * grain;
}

}  // namespace

OrderedSum::OrderedSum(std::int64_t shards, std::size_t values, Wire* wire)
    : shards_(shards),
      values_(values),
      piece_(piece_of(values, wire ? static_cast<std::size_t>(wire->size()) : 1)),
      padded_(piece_ * (wire ? static_cast<std::size_t>(wire->size()) : 1)),
      wire_(wire),
      ranks_(wire ? wire->size() : 1),
      first_(wire ? first_shard(wire->rank(), ranks_, shards) : 0),
      last_(wire ? first_shard(wire->rank() + 1, ranks_, shards) : shards) {}

std::span<float> OrderedSum::leaf() {
  if (!leaf_) leaf_ = fresh();
  return {leaf_, values_};
}

void OrderedSum::add(std::int64_t shard) {
  assert(leaf_ && shard >= first_ && shard < last_);
  push_empty(parts_, shard);
  parts_.push_back({shard, shard + 1, std::exchange(leaf_, nullptr)});
  collapse(parts_, padded_);
}

std::span<float> OrderedSum::finish(std::span<const std::uint8_t> filled) {
  push_empty(parts_, last_);
  std::vector<Part> mine;
  const auto has_values = [](const Part& p) { return p.values != nullptr; };
  std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(mine), has_values);
  const auto give_back = [&] {
    for (const Part& p : mine) free(p.values);
    parts_.clear();
  };
  const bool any = std::any_of(filled.begin(), filled.end(), [](std::uint8_t f) { return f != 0; });
  if (!any) return {};
  if (!wire_) {
    give_back();  // nobody takes the memory before the next leaf
    return {mine.at(0).values, values_};
  }

  // Every rank's parts of my piece, and mine of every rank's.
  const auto ranks = static_cast<std::size_t>(ranks_);
  std::vector<std::size_t> to(ranks, mine.size() * piece_), from(ranks);
  std::size_t total = 0;
  std::vector<Part> all;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto theirs = parts_of(static_cast<std::int64_t>(r), filled);
    const auto sent = std::count_if(theirs.begin(), theirs.end(), has_values);
    total += from[r] = static_cast<std::size_t>(sent) * piece_;
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  out_.resize(mine.size() * padded_);
  in_.resize(std::max(total, padded_));
  float* next = out_.data();
  for (std::size_t r = 0; r < ranks; ++r)
    for (const Part& p : mine) {
      std::memcpy(next, p.values + r * piece_, piece_ * sizeof(float));
      next += piece_;
    }
  wire_->exchange(out_, to, std::span(in_).first(total), from);
  give_back();

  // The rest of the tree, over all ranks' parts in their order.
  std::vector<Part> tree;
  float* come = in_.data();
  for (Part& p : all) {
    if (p.values) p.values = std::exchange(come, come + piece_);
    tree.push_back(p);
    collapse(tree, piece_);
  }
  assert(tree.size() == 1 && tree[0].values);

  // Everybody's piece to everybody.
  whole_.resize(padded_);
  wire_->gather(std::as_bytes(std::span(tree[0].values, piece_)),
                std::as_writable_bytes(std::span(whole_)));
  return std::span(whole_).first(values_);
}

// ---- the tree -----------------------------------------------------------------------------------

void OrderedSum::push_empty(std::vector<Part>& parts, std::int64_t until) {
  for (std::int64_t k = parts.empty() ? first_ : parts.back().end; k < until; ++k) {
    parts.push_back({k, k + 1, nullptr});
    collapse(parts, padded_);
  }
}

void OrderedSum::collapse(std::vector<Part>& parts, std::size_t count) {
  while (parts.size() >= 2 && are_siblings(parts[parts.size() - 2], parts.back())) {
    const Part right = parts.back();
    parts.pop_back();
    Part& left = parts.back();
    left.end = right.end;
    if (!right.values) continue;
    if (!left.values) {
      left.values = right.values;
      continue;
    }
    float* sum = left.values;
    for (std::size_t i = 0; i < count; ++i) sum[i] += right.values[i];
    if (count == padded_ && &parts == &parts_) free(right.values);
  }
}

bool OrderedSum::are_siblings(const Part& a, const Part& b) const {
  std::int64_t begin = 0, end = shards_;
  while (end - begin >= 2) {
    const auto half =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(end - begin - 1)));
    const std::int64_t middle = begin + half;
    if (a.begin == begin && a.end == middle && b.end == end) return true;
    if (b.end <= middle)
      end = middle;
    else if (a.begin >= middle)
      begin = middle;
    else
      return false;
  }
  return false;
}

// The subtrees that a rank adds up alone.
std::vector<OrderedSum::Part> OrderedSum::parts_of(std::int64_t rank,
                                                   std::span<const std::uint8_t> filled) {
  std::vector<Part> parts;
  float some = 0;  // stands for a leaf's values
  const std::int64_t end = first_shard(rank + 1, ranks_, shards_);
  for (std::int64_t k = first_shard(rank, ranks_, shards_); k < end; ++k) {
    parts.push_back({k, k + 1, filled[static_cast<std::size_t>(k)] ? &some : nullptr});
    collapse(parts, 0);
  }
  return parts;
}

// ---- memory -------------------------------------------------------------------------------------

float* OrderedSum::fresh() {
  if (free_.empty()) {
    memory_.push_back(std::make_unique<float[]>(padded_));  // zeros behind the values
    return memory_.back().get();
  }
  float* values = free_.back();
  free_.pop_back();
  return values;
}

void OrderedSum::free(float* values) { free_.push_back(values); }

}  // namespace sluice
