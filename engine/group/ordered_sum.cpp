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

std::vector<std::size_t> even_cuts(std::size_t values, std::size_t ranks) {
  const std::size_t each = (values + ranks - 1) / ranks;
  std::vector<std::size_t> cuts{0};
  for (std::size_t r = 1; r < ranks; ++r)
    cuts.push_back(std::min(values, r * ((each + grain - 1) / grain * grain)));
  cuts.push_back(values);
  return cuts;
}

// Whether [begin, middle) and [middle, end) are the two halves of a subtree of so many leaves.
bool siblings(std::int64_t begin, std::int64_t middle, std::int64_t end, std::int64_t leaves) {
  std::int64_t first = 0, last = leaves;
  while (last - first >= 2) {
    const auto half =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(last - first - 1)));
    const std::int64_t at = first + half;
    if (begin == first && middle == at && end == last) return true;
    if (end <= at)
      last = at;
    else if (begin >= at)
      first = at;
    else
      return false;
  }
  return false;
}

constexpr std::size_t half_bytes = 2;

// The nearest number that a bfloat16 can hold; of two equally near the even one.
float rounded(float value) {
  constexpr std::uint32_t low = 0xffff, infinity = 0x7f800000;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & ~(1u << 31)) > infinity;
  const std::uint32_t up = nan ? 0 : (low >> 1) + (bits >> 16 & 1);
  return std::bit_cast<float>(((bits + up) & ~low) | (nan ? 1u << 22 : 0));
}

void round_all(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = rounded(values[i]);
}

// As they go over the wire; of rounded ones the upper half is all that there is.
void pack(const float* values, std::size_t count, bool halves, std::byte* to) {
  if (!halves) {
    std::memcpy(to, values, count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
    std::memcpy(to + i * half_bytes, &half, half_bytes);
  }
}

void unpack(const std::byte* from, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from + i * half_bytes, half_bytes);
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
}

}  // namespace

OrderedSum::OrderedSum(std::int64_t shards, std::size_t values, Collectives* wire, bool halves,
                       std::vector<std::size_t> cuts)
    : shards_(shards),
      values_(values),
      wire_(wire),
      halves_(halves),
      ranks_(wire ? wire->size() : 1),
      first_(wire ? first_shard(wire->rank(), ranks_, shards) : 0),
      last_(wire ? first_shard(wire->rank() + 1, ranks_, shards) : shards),
      cuts_(cuts.empty() ? even_cuts(values, static_cast<std::size_t>(ranks_)) : std::move(cuts)) {
  assert(cuts_.size() == static_cast<std::size_t>(ranks_) + 1 && cuts_.back() == values);
}

std::span<float> OrderedSum::leaf() {
  if (!leaf_) leaf_ = fresh();
  return {leaf_, values_};
}

void OrderedSum::add(std::int64_t shard) {
  assert(leaf_ && shard >= first_ && shard < last_);
  if (halves_) round_all(leaf_, values_);
  push_empty(parts_, shard);
  parts_.push_back({shard, shard + 1, std::exchange(leaf_, nullptr)});
  collapse(parts_, values_);
}

std::span<float> OrderedSum::finish(std::span<const std::uint8_t> filled) {
  const std::span<float> piece = finish_piece(filled);
  const bool none = std::none_of(filled.begin(), filled.end(), [](std::uint8_t f) { return f; });
  return none || !wire_ ? piece : gather(piece, halves_);
}

std::span<float> OrderedSum::finish_piece(std::span<const std::uint8_t> filled) {
  push_empty(parts_, last_);
  std::vector<Part> mine;
  const auto has_values = [](const Part& p) { return p.values != nullptr; };
  std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(mine), has_values);
  parts_.clear();
  const auto give_back = [&] {
    for (const Part& p : mine) free(p.values);
  };
  if (std::none_of(filled.begin(), filled.end(), [](std::uint8_t f) { return f; })) return {};
  if (!wire_) {
    give_back();  // nobody takes the memory before the next leaf
    return {mine.at(0).values, values_};
  }

  // Every rank's parts of my piece, and mine of every rank's.
  const auto ranks = static_cast<std::size_t>(ranks_);
  const std::size_t each = halves_ ? half_bytes : sizeof(float), piece = size_of(rank());
  std::vector<std::size_t> to(ranks), from(ranks);
  std::size_t total = 0;
  std::vector<Part> all;
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto theirs = parts_of(static_cast<std::int64_t>(r), filled);
    const auto come =
        static_cast<std::size_t>(std::count_if(theirs.begin(), theirs.end(), has_values));
    total += come;
    from[r] = come * piece * each;
    to[r] = mine.size() * size_of(r) * each;
    if (r != rank()) sent_ += to[r];
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  send_.resize(mine.size() * values_ * each);
  std::byte* next = send_.data();
  for (std::size_t r = 0; r < ranks; ++r)
    for (const Part& p : mine) {
      pack(p.values + cuts_[r], size_of(r), halves_, next);
      next += size_of(r) * each;
    }
  wire_->exchange(send_, to, landing(in_, total * piece, halves_), from);
  give_back();
  landed(in_, halves_);

  // The rest of the tree, over all ranks' parts in their order.
  std::vector<Part> tree;
  float* come = in_.data();
  for (Part& p : all) {
    if (p.values) p.values = std::exchange(come, come + piece);
    tree.push_back(p);
    collapse(tree, piece);
  }
  assert(tree.size() == 1 && tree[0].values);
  return {tree[0].values, piece};
}

std::span<float> OrderedSum::gather(std::span<const float> piece) { return gather(piece, false); }

std::span<float> OrderedSum::gather(std::span<const float> piece, bool halves) {
  if (!wire_) {
    whole_.assign(piece.begin(), piece.end());
    return whole_;
  }
  const auto ranks = static_cast<std::size_t>(ranks_);
  const std::size_t each = halves ? half_bytes : sizeof(float), mine = piece.size() * each;
  std::vector<std::size_t> to(ranks, mine), from(ranks);
  for (std::size_t r = 0; r < ranks; ++r) from[r] = size_of(r) * each;
  send_.resize(ranks * mine);
  pack(piece.data(), piece.size(), halves, send_.data());
  for (std::size_t r = 1; r < ranks; ++r) std::copy_n(send_.data(), mine, send_.data() + r * mine);
  wire_->exchange(send_, to, landing(whole_, values_, halves), from);
  sent_ += (ranks - 1) * mine;
  landed(whole_, halves);
  return whole_;
}

// What comes over the wire is floats as they are, or halves to be widened.
std::span<std::byte> OrderedSum::landing(std::vector<float>& values, std::size_t count,
                                         bool halves) {
  values.reserve(1);  // of an empty piece too there is an address
  values.resize(count);
  if (!halves) return std::as_writable_bytes(std::span(values));
  receive_.resize(count * half_bytes);
  return receive_;
}

void OrderedSum::landed(std::vector<float>& values, bool halves) const {
  if (halves) unpack(receive_.data(), values.size(), values.data());
}

// ---- the tree -----------------------------------------------------------------------------------

void OrderedSum::push_empty(std::vector<Part>& parts, std::int64_t until) {
  for (std::int64_t k = parts.empty() ? first_ : parts.back().end; k < until; ++k) {
    parts.push_back({k, k + 1, nullptr});
    collapse(parts, values_);
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
    if (halves_) round_all(sum, count);
    if (&parts == &parts_) free(right.values);
  }
}

bool OrderedSum::are_siblings(const Part& a, const Part& b) const {
  return siblings(a.begin, a.end, b.end, shards_);
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

std::int64_t sums_alone(std::int64_t rank, std::int64_t ranks, std::int64_t shards) {
  std::vector<std::int64_t> begins;  // of the subtrees so far
  const std::int64_t end = first_shard(rank + 1, ranks, shards);
  for (std::int64_t k = first_shard(rank, ranks, shards); k < end; ++k) {
    begins.push_back(k);
    while (begins.size() >= 2 && siblings(begins[begins.size() - 2], begins.back(), k + 1, shards))
      begins.pop_back();
  }
  return static_cast<std::int64_t>(begins.size());
}

// ---- memory -------------------------------------------------------------------------------------

float* OrderedSum::fresh() {
  if (free_.empty()) {
    memory_.push_back(std::make_unique<float[]>(values_));
    return memory_.back().get();
  }
  float* values = free_.back();
  free_.pop_back();
  return values;
}

void OrderedSum::free(float* values) { free_.push_back(values); }

}  // namespace sluice
