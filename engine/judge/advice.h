// The training guide as a function: changes to a graph that may make it faster, each with what it
// costs and whether results stay the same. Whether one pays is for the caller to find out, by
// forecast.h or by a run.
//
//   what does not change comes before what does           (flip, norm -> norm, flip)
//   a cache where the part that does not change ends      (norm, [cache], flip)
//   as many threads as there are cores, queues that are long enough
//   what only a run can tell: step threads, precision, windows at a time
//
// Invariant: pure functions; a change holds the whole text of the graph file after it, comments and
// all, and nothing is proposed that stands in another file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/judge/figures.h"
#include "engine/plan/plan.h"

namespace sluice {

struct Change {
  // What it does to a run's results.
  enum class Effect : std::uint8_t {
    none,
    rounding,   // the last bits: sums are taken in another order
    draws,      // what is drawn acts on something else; the same kind of augmentation
    precision,  // fewer bits
  };
  std::string title;  // "cache after `pre/fit`"
  std::string why, cost;
  Effect effect = Effect::none;
  std::string text;  // of the graph file, changed
};

const char* text_of(Change::Effect effect);  // "results stay the same"

// What the machine has for caches.
struct Room {
  std::uint64_t memory = 0, disk = 0;  // bytes
};

// Caches that stand where none can: a graph with them does not run.
std::vector<int> misplaced_caches(const Graph& graph);

// The first of the changes to where things stand. Apply it, read the graph again and ask again;
// none: all is in place.
std::vector<Change> reorder(const Graph& graph);
// `measured` and `figures` are of a run without the caches that are to come; sizes come from there.
std::vector<Change> place_caches(const Graph& graph, const Plan& measured, const Figures& figures,
                                 const Room& room);

// The share of its stream's items that a cache is sure to have room for, by those sizes: 1 without
// a budget, 0 where it has one and nobody knows what the items come to.
double share_held(const Plan& plan, int cache, const Plan& measured, const Figures& figures);

// Misplaced caches for which there is no better place.
std::vector<Change> leave_out_caches(const Graph& graph);

// Threads and queues, each on its own; a forecast tells which of them help.
std::vector<Change> widen(const Plan& plan, const Threads& threads);

// What no forecast can tell; a trial can.
std::vector<Change> try_out(const Graph& graph, const Threads& threads);

}  // namespace sluice
