// What a cache will hold, as far as it is certain without data: sizes that transforms fix, and the
// numbers of items that the graph says.
#pragma once

#include <cstdint>
#include <string>

#include "engine/plan/plan.h"

namespace sluice {

struct CacheNeed {
  std::uint64_t item_bytes = 0;  // of one item's tensors, at least; 0: unknown
  std::uint64_t items = 0;       // at most; 0: unknown
  bool exact = false;            // item_bytes is no lower bound
  bool narrow = false;           // and volumes may be kept in narrower types
  std::string text() const;      // "at least 1.2 MB an item, 75.5 MB for 64 items"; "" : unknown
};

CacheNeed cache_need(const Plan& plan, int cache);

// Whether a cache keeps samples for later runs too.
bool keeps_for_later(const PlanNode& cache);

// Of one packet's tensors, at least; `exact`: no more than that.
struct PacketBytes {
  std::uint64_t bytes = 0;  // 0: unknown
  bool exact = false;
};
PacketBytes packet_bytes(const Flow& flow);

std::string in_bytes(double bytes);  // "1.2 MB"

}  // namespace sluice
