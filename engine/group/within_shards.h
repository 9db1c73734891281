// The order of an epoch whose places change within each shard alone, so that an item stays with its
// shard for the whole run.
#pragma once

#include <algorithm>

#include "engine/base/random.h"
#include "engine/group/shards.h"

namespace sluice {

// Of an epoch of n items the place that gives its item to place p: one of the same shard, and each
// once. Any n: a last batch that is not full has places of the first shards alone.
inline std::uint64_t shuffled_within_shard(std::uint64_t p, std::uint64_t n,
                                           const Division& division, std::uint64_t key) {
  const std::int64_t batch = division.items, parts = division.parts;
  const auto at = static_cast<std::int64_t>(p), all = static_cast<std::int64_t>(n);
  const std::int64_t shard = part_of(at % batch, batch, parts);
  const std::int64_t first = batch * shard / parts;
  const std::int64_t each = batch * (shard + 1) / parts - first;
  const std::int64_t places =
      all / batch * each + std::clamp(all % batch - first, std::int64_t{0}, each);
  const Permutation order(static_cast<std::uint64_t>(places),
                          mix(key ^ mix(static_cast<std::uint64_t>(shard))));
  const auto to = static_cast<std::int64_t>(
      order(static_cast<std::uint64_t>(at / batch * each + at % batch - first)));
  return static_cast<std::uint64_t>(to / each * batch + first + to % each);
}

}  // namespace sluice
