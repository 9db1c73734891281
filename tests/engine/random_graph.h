// Random graphs for the scheduler's tests: a description (Program), a seeded generator of them,
// and what each body computes, as a pure function.
//
// Two things are made from a Program that share no code: a Graph with toy nodes for the scheduler
// (program_nodes.h), and the expected results (interpreter.h). Every value is a hash of all that
// the body saw, so a wrong sample, order, draw or weight shows in everything after it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"

namespace sluice::sim {

enum class Kind : std::uint8_t {
  source,
  map,      // 1:1, one or several ports in and out; may filter
  buffer,   // a gate
  expand,   // 1:n, fixed or varying
  batch,    // n:1, a gate
  shuffle,  // n:n
  cache,    // a gate with a memory store
  reader,   // reads `net`; the first one of a stream is its region's gate
  updater,  // changes `net`
  sink,     // writes down what it gets
};

struct Item {
  Kind kind = Kind::map;
  std::string path;
  std::vector<std::pair<int, int>> from;  // node and out-port, by in-port
  int outs = 1;
  int stream = 0;             // ordinal of its source
  std::uint64_t salt = 0;     // of its hash
  int size = 1;               // source: samples; expand: n; batch: B; shuffle: the window
  bool varies = false;        // expand: 0 to n children
  bool lists = false;         // expand: they are made as they are taken
  bool drop_last = false;     // batch
  bool random = false;        // mixes in its draws
  bool ordered = false;       // mixes in a state, which flush() tells and resets
  bool bad = false;           // fails on some samples, which are quarantined
  bool permutes = false;      // source: another order every epoch
  bool says_size = false;     // source: how many samples an epoch has
  bool spares = false;        // source: makes no item that a cache has
  int items = 0;              // source: it has only so many, some of them again; 0: each once
  bool asks_stopped = false;  // returns where the run is cut, with nothing or a part of its output
  bool optional = false;      // has a port that nothing is connected to
  bool holds = false;         // sink: a gate that keeps its credit for a while
  int filter = 0;             // leaves out one output in so many; 0: none
  int lane = 0, limit = 0;    // of the plan: LaneKind; firings at a time
  int net = -1;               // reader, updater
  int after = -1;             // source of a validation stream: the updater
  int every = 1;              // ... and how often
  bool behind_gate = false;   // it is, or stands behind, a turn's gate: exact at any cut
};

struct Program {
  std::uint64_t seed = 0;
  int epochs = 1, nets = 0;
  std::vector<Item> nodes;  // topological
  std::vector<int> sources;
  int train = -1;                  // stream that trains; -1: none
  std::int64_t max_bad = 1 << 30;  // of each node: samples
};

// `trains`: with a training stream and one to three for validation. `resumes`: without batches and
// shuffles after the updaters, which go on exactly at a turn's end only.
Program random_program(std::uint64_t seed, bool trains, bool resumes);
std::string describe(const Program& program);

// A sample's content: of a batch, the members' values too.
struct Value {
  std::uint64_t value = 0;
  std::vector<std::uint64_t> members;
  friend bool operator==(const Value&, const Value&) = default;
};

// What one firing makes: for every child the value on every out-port, or nothing.
struct Made {
  bool bad = false;  // throws
  std::uint64_t hash = 0;
  std::vector<std::vector<std::optional<Value>>> children;
};
// `in` by port, one value each, for a batch several; `state` and `weight` where the node has one.
Made work(const Item& node, const std::vector<std::vector<Value>>& in, Random draws,
          std::uint64_t state, std::uint64_t weight);
Value source_value(const Item& node, std::uint64_t item);
// The item at a place of the source's epoch.
std::uint64_t source_item(const Item& node, std::uint64_t index, std::uint64_t epoch_key);

}  // namespace sluice::sim
