// What was measured at each node over a stretch of time: the difference of two readings of its
// counters. The node table, the live block, the measured picture and the verdict are made of it.
//
// Invariant: plain numbers, without LibTorch or TBB; `from_json` reads what `to_json` wrote and
// takes whatever else it finds as not measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/trace/trace.h"

namespace sluice {

struct NodeFigures {
  bool known = false;  // measured at all
  std::uint64_t fired = 0, passed = 0;
  std::uint64_t spared = 0;  // a source: of fired, items that a cache had, so that none was made
  double rate = 0;           // fired and passed, a second
  double busy = 0;           // share of the time of all its slots
  double busy_s = 0;         // of all its bodies together; of the device, where they queue
  double host_s = 0;         // there: of the bodies themselves, which queue; else 0
  double body_s = 0;      // of its bodies, with what they did for other nodes of its run (plan.h)
  double shared_s = 0;    // of busy_s: passes that did the work of other nodes too ...
  std::vector<int> with;  // ... of these, by plan index
  double starved = 0, blocked = 0;  // shares of the time: waits for input; for a credit or a turn
  double p50_ms = 0, p95_ms = 0, p99_ms = 0;  // since the run began
  double cpu = 1;                   // cores that a body used, of those long enough to be looked at
  bool clocked = false;             // there were such
  double mb = 0, mb_most = 0;       // MB emitted by a firing, on average and at most
  std::uint64_t out = 0, lost = 0;  // packets sent; of these Skips that began here
  std::int64_t epoch_size = -1;     // packets of the last epoch that ended; -1: none yet
  std::int64_t items = -1;          // a source: how many it chooses from; -1: as many
  std::uint64_t queue = 0, queue_max = 0;  // packets waiting before it
  int running = 0;                         // bodies under way
  int credits_out = 0, credits_most = 0;   // of the segment that begins here

  // A source: how many different packets it can give; -1: nobody knows yet.
  std::int64_t chosen_from() const { return items >= 0 ? items : epoch_size; }
};

// How many threads work where.
struct Threads {
  int compute = 2, io = 2;
  int cores = 0;  // of the machine; 0: unknown
  int step = 1;   // that a body on the step lane uses

  int on(LaneKind lane) const;
  int slots(const PlanNode& node) const;  // how many of its bodies may run at once
};

struct Figures {
  double wall_s = 0;
  Threads threads;
  std::vector<NodeFigures> nodes;  // by plan index

  // `before` and `after`: by plan index, of one run.
  static Figures between(const Plan& plan, const Threads& threads,
                         const std::vector<Reading>& before, const std::vector<Reading>& after);
  static Figures from_json(const Plan& plan, const Json& profile);
  // {"wall_s": 30.1, "threads": 2, ..., "nodes": {"pre/load": {"items": 1254, "busy": 0.97, ...}}}
  Json to_json(const Plan& plan) const;
  bool known() const;  // any node
};

// The nodes whose work is done in the node's passes, itself among them and in the run's order; the
// node alone where less than a twentieth of its time is such passes.
std::vector<int> done_with(const Plan& plan, const Figures& figures, int node);
// Their names: "spacing", or "spacing + rand_flip".
std::string names_done_with(const Plan& plan, const Figures& figures, int node);
// The node in whose passes all or nearly all of this one's work is done; -1: it has its own.
int done_in(const Plan& plan, const Figures& figures, int node);

// How many packets wait before a node at most, which is what its segment's credits allow; 0
// where nobody knows (after a 1:n that varies) or nothing waits (a source).
int queue_room(const Plan& plan, int node);

// How many packets become one at a gather: its batch, or a shard's part of it on average.
double gathered(const Plan& plan, const PlanNode& gather);

// The samples of its source that one packet before a node stands for, where that is fixed:
// after a batch of 8 it is 8, after a 1:2 one half. 0 where it varies.
double samples_each(const Plan& plan, int node);

// The stream that sets the pace: the one that trains, else the first that runs freely.
int pace_stream(const Plan& plan);
// Its last node: the updater, else a sink.
int pace_node(const Plan& plan, int stream);

// Samples of its source that the pace stream dealt with in a second.
double pace(const Plan& plan, const Figures& figures);

}  // namespace sluice
