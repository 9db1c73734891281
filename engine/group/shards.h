// How a step's batch is divided, and who computes which part: arithmetic alone.
//
//   item i of an epoch ──▶ batch i / items ──▶ shard ──▶ rank
//
// Invariants:
//  - where an item belongs follows from its number alone, never from what else is there: a sample
//    that is filtered or damaged leaves its place empty, and the next one does not move up;
//  - shards of a batch are of consecutive items, ranks have consecutive shards;
//  - sums over shards are made along one tree, whoever holds which leaves.
#pragma once

#include <cstdint>

namespace sluice {

// Of `items` things in `parts` parts of nearly the same size, the part that thing `i` is in: part k
// holds the things items * k / parts ... items * (k + 1) / parts - 1.
constexpr std::int64_t part_of(std::int64_t i, std::int64_t items, std::int64_t parts) {
  return ((i + 1) * parts - 1) / items;
}

// How a stream's items become packets where it counts by places instead of by samples.
struct Division {
  std::int64_t items = 1;  // of the source, a batch
  std::int64_t parts =
      0;  // packets a batch (run.shards of a training stream, else 1); 0: as always
  bool trains = false;
  bool by_first = false;     // rank 0 computes all of it: nobody could put parts together again
  std::int64_t samples = 1;  // a batch: of the packets that come to its node

  bool by_place() const { return parts > 0; }
  bool sharded() const { return trains && parts > 1; }
  // The packet of the epoch that an item is in.
  std::int64_t packet(std::uint64_t item) const {
    const auto i = static_cast<std::int64_t>(item);
    return i / items * parts + part_of(i % items, items, parts);
  }
  // Whether the update comes with this packet.
  bool ends_step(std::uint64_t packet) const {
    return !sharded() || static_cast<std::int64_t>(packet) % parts == parts - 1;
  }
  // Which of `ranks` computes the item: a shard's, or of whole batches one after the other.
  std::int64_t rank(std::uint64_t item, std::int64_t ranks) const {
    if (by_first) return 0;
    const std::int64_t p = packet(item);
    return trains ? part_of(p % parts, parts, ranks) : p % ranks;
  }
};

// The first shard of a rank.
constexpr std::int64_t first_shard(std::int64_t rank, std::int64_t ranks, std::int64_t shards) {
  return shards * rank / ranks;
}

}  // namespace sluice
