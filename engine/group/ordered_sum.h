// The sum of a step's shards, the same to the bit however many processes compute them.
//
//   leaves are shards; n of them split at the largest power of two below n:
//
//            +                  Each rank holds consecutive leaves and adds whole subtrees as they
//        +       +              come. What it cannot add alone it sends on, cut into as many pieces
//      +   +   +   4            as there are ranks: the owner of a piece adds the rest along the
//     0 1 2 3                   tree, and sends its piece to everybody.
//
// So every number is added in one order; what carries the numbers adds nothing. The traffic is that
// of a ring's all-reduce. An empty shard has no leaf: what stands beside it goes up as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/group/wire.h"

namespace sluice {

class OrderedSum {
 public:
  // `wire` null: one process has all shards. cuts[r], cuts[r + 1]: where rank r's piece begins and
  // ends; none: pieces of even size.
  OrderedSum(std::int64_t shards, std::size_t values, Collectives* wire, bool halves = false,
             std::vector<std::size_t> cuts = {});

  // Memory for the values of a leaf, to be filled before add(). Not set to anything.
  std::span<float> leaf();
  // The shard's leaf is what leaf() gave. Shards of this rank come in their order, none twice;
  // those that are left out are empty.
  void add(std::int64_t shard);

  // Collective: the sum of all leaves, valid until the next leaf(). filled[k]: whether shard k has
  // a leaf, here or elsewhere. Empty where none has; the caller may change the values.
  std::span<float> finish(std::span<const std::uint8_t> filled);

  // The same in two parts. Collective: the sum of this rank's piece alone, valid until the next
  // leaf(); then, once it has made something of that, everybody's piece to everybody.
  std::span<float> finish_piece(std::span<const std::uint8_t> filled);
  std::span<float> gather(std::span<const float> piece);
  std::size_t begin() const { return cuts_[rank()]; }  // of this rank's piece
  std::size_t end() const { return cuts_[rank() + 1]; }

  // Bytes that this rank sent to others so far.
  std::uint64_t sent() const { return sent_; }

 private:
  // A subtree that is added up: shards [begin, end); no values: it is empty.
  struct Part {
    std::int64_t begin, end;
    float* values;
  };
  // Adds siblings at the end of the list, the left one's memory taking the sum of `count` values.
  void collapse(std::vector<Part>& parts, std::size_t count);
  bool are_siblings(const Part& a, const Part& b) const;
  void push_empty(std::vector<Part>& parts, std::int64_t until);
  std::vector<Part> parts_of(std::int64_t rank, std::span<const std::uint8_t> filled);
  // Where values are to come in over the wire, and after they did.
  std::span<std::byte> landing(std::vector<float>& values, std::size_t count, bool halves);
  void landed(std::vector<float>& values, bool halves) const;
  std::span<float> gather(std::span<const float> piece, bool halves);
  float* fresh();
  void free(float* values);
  std::size_t rank() const { return wire_ ? static_cast<std::size_t>(wire_->rank()) : 0; }
  std::size_t size_of(std::size_t rank) const { return cuts_[rank + 1] - cuts_[rank]; }

  const std::int64_t shards_;
  const std::size_t values_;
  Collectives* const wire_;
  const bool halves_;
  const std::int64_t ranks_, first_, last_;  // this rank's shards
  const std::vector<std::size_t> cuts_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<float[]>> memory_;
  std::vector<float*> free_;
  float* leaf_ = nullptr;
  std::vector<float> in_, whole_;
  std::vector<std::byte> send_, receive_;
  std::uint64_t sent_ = 0;
};

// How many sums a rank of `ranks` holds of full shards before it hears of others: the largest
// subtrees that lie in its shards.
std::int64_t sums_alone(std::int64_t rank, std::int64_t ranks, std::int64_t shards);

}  // namespace sluice
