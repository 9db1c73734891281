// A step's sum in buckets, which go over the wire while the rest is still being computed.
//
//   step thread   backward ──close 0──close 1──────close 2──▶ await ──▶ update
//   wire thread   header      sum 0 ─────▶ sum 1 ─▶ sum 2
//
// Invariants:
//  - all calls of a step are made by one thread and in the buckets' order, so every rank makes them
//    in the same one, whenever its buckets are closed; between await() and the next begin() the
//    wire is the caller's;
//  - a number is added in the order of OrderedSum, whatever bucket it is in.
// Without a wire everything is done by the caller, in await().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/group/ordered_sum.h"

namespace sluice {

class BucketedSum {
 public:
  struct Bucket {
    std::size_t values = 0;
    std::vector<std::size_t> cuts;  // of OrderedSum; none: even
    bool in_parts = false;          // a rank hears of its own piece alone
  };
  BucketedSum(std::int64_t shards, const std::vector<Bucket>& buckets, Collectives* wire,
              bool halves);
  // Of a step that is not at its end, as after an error, the wire thread may be in a call that
  // waits for a rank which is gone: then it is left behind, with what it works on.
  ~BucketedSum();
  BucketedSum(const BucketedSum&) = delete;
  BucketedSum& operator=(const BucketedSum&) = delete;

  // ---- shards: all but this rank's last are added before begin()

  std::span<float> leaf(std::size_t bucket);
  void add(std::size_t bucket, std::int64_t shard);

  // ---- the step's end

  // `agree` says which shards have a leaf on any rank, on the thread that has the wire.
  void begin(std::function<std::vector<std::uint8_t>()> agree);
  bool has_begun() const;
  // From any thread, each bucket once. `shard`: whose leaf is to be added; -1: none.
  void close(std::size_t bucket, std::int64_t shard = -1);
  void await_agreement();
  // Rethrows what a call of the step has thrown.
  void await();
  // Of a bucket, until its next leaf(): of all values, or of this rank's piece; empty where no
  // shard has a leaf.
  std::span<float> sum(std::size_t bucket) const;
  // The bucket itself, for its pieces.
  OrderedSum& of(std::size_t bucket);

  std::uint64_t sent() const;    // bytes to others so far
  std::int64_t wire_ns() const;  // of all calls so far, the wait for the agreement apart
  std::size_t size() const;

 private:
  struct Work;
  const std::shared_ptr<Work> work_;
};

}  // namespace sluice
