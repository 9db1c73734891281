// The Plan: a checked graph with everything decided that can be decided without data. Lanes,
// domains, segments and their credits, caches' prefixes, and whose turn it is when.
//
//   source --> load --> norm --> [cache] --> crop --> [batch] --> [model] --> loss --> step
//   |---- segment, 6 credits ---|-- segment, 9 ------|-- 2 ------|---- region, 1 ----------|
//
// Invariants:
//  - every node belongs to one stream; ports are joined only within one domain (a source, a 1:n,
//    an n:1 or a shuffle opens one), so their stamps agree one to one;
//  - a segment has at least 1 + the sum of what all nodes it feeds hold back, so the lowest stamp
//    in flight can always move. A batch of B holds back B-1 credits even after a 1:n node: a
//    filter may leave one child of each parent, and a shuffle mixes the children of many;
//  - a network that is updated is read by one turn at a time, in an order fixed by the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/group/shards.h"
#include "engine/plan/fields.h"
#include "engine/plan/turn_order.h"

namespace sluice {

struct PlanEdge {
  int to = -1, port = 0;
};

struct PlanNode {
  const GraphNode* graph = nullptr;  // path, params, place; owned by the Graph
  const Spec* spec = nullptr;
  LaneKind lane = LaneKind::compute;
  int concurrency = 0;   // bodies at a time; 0: no limit of its own
  bool ordered = false;  // fires serially in stamp order, and is flushed
  bool gate = false;     // begins a segment: admits in stamp order, against credits
  int credits = 0;       // of the segment that begins here (gates and sources)
  int need = 1;          // the least credits that segment can run with
  std::string why;       // how `need` came about: "1 + 7 held by batch"
  int count = 1;         // B of a gather, n of an expand (0: varies), a shuffle's window
  bool drop_last = false;
  std::vector<GraphInput> inputs;           // by in-port
  std::vector<std::vector<PlanEdge>> outs;  // by out-port
  Flow flow;                                // what is known of the samples that leave it
  int stream = 0;
  int domain = -1;                  // of what it emits: the node that opened it
  int depth_in = 0, depth_out = 0;  // 1:n levels in the stamps that enter and leave
  int segment = -1;                 // the gate or source whose credits its output carries
  std::vector<int> prefix_of;       // caches whose hit makes this node pass packets on
  std::vector<int> spared_by;       // a source: caches whose hit means that nobody reads its sample
  bool takes_turns = false;         // gates bound to turns, and updaters
  bool training = false;            // reads or updates a network on its updater's stream
  bool feeds_cache = false;         // a cache stands after it: its packets carry the look-ups
  bool discards = false;            // a cut makes it drop what still comes
  bool aborts = false;  // ... and what its bodies still make, which a gate downstream drops
  int run = -1;         // of fused nodes: index into Plan::runs
  Leaves leaves = Leaves::nothing;  // whether the next node of the run does its work too
  bool narrow = false;              // a cache: all its readers fuse, so that narrow volumes do
  std::vector<std::string> stays;   // a move to a device: fields that are read on the host

  const std::string& path() const { return graph->path; }
  bool begins_training() const { return gate && takes_turns && training; }
  bool is_source() const { return spec->arity == Arity::source; }
  bool is_sink() const {
    for (const auto& port : outs)
      if (!port.empty()) return false;
    return true;
  }
};

struct PlanStream {
  int source = -1;
  bool takes_turns = false;  // else it runs freely
  bool trains = false;
  int every = 1;            // a validation stream: after every so many training epochs
  std::vector<int> caches;  // looked up when the source emits
  std::int64_t epochs = 1;  // how many it has in all
  Division division;        // over packets and processes
};

// The networks that the training stream's updaters change, and who may hold them when.
struct PlanTurns {
  std::vector<std::string> networks;
  int train_stream = -1;
  std::vector<int> updaters;
  std::vector<int> streams;  // validation streams, in file order
  std::vector<int> sinks;    // after a validation reader
};

// Transforms one after the other whose work is done together, by the last of them: each of the
// others writes down what it would do, and passes the sample on with that. On a device a `batch`
// may end a run: it does the work of all its members in one go.
struct PlanRun {
  std::vector<int> nodes;
  int resamplings = 0;   // at most; a node that holds other nodes counts as one
  bool batched = false;  // ends with a batch
};

struct Plan {
  const Graph* graph = nullptr;
  std::vector<PlanNode> nodes;  // same indices as graph->nodes
  std::vector<PlanStream> streams;
  std::optional<PlanTurns> turns;  // of the stream that trains, where one does
  std::vector<PlanRun> runs;
  std::vector<int> order;  // topological, sources first
  int threads = 2;
  int io_threads = 0;  // that its nodes ask for

  TurnOrder sequence() const;  // of the turns, which must be there
  // The nodes that begin training: several where networks train side by side.
  std::vector<int> training_gates() const;
};

// Where training begins, and what works on its packets: all behind that node, up to the next gates.
// Empty where nothing trains, and where it begins at several nodes.
std::vector<int> training_region(const Plan& plan);

// "flip + zoom + affine: 2 resamplings"
std::string text(const Plan& plan, const PlanRun& run);

struct PlanOptions {
  int threads = 2;                   // data threads: automatic credits follow them
  bool device = false;               // there is one: what works on its memory goes to the copy lane
  std::vector<std::string> apart{};  // nodes that are in no run
  int processes = 1;                 // that the run is divided over
};

// Needs a Graph that stays alive. Everything wrong goes to `diagnostics`; nullopt if anything is.
std::optional<Plan> make_plan(const Graph& graph, const PlanOptions& options,
                              Diagnostics& diagnostics);

}  // namespace sluice
