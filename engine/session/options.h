// What the command line asked for; the binary hands it over as one JSON document.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace sluice {

class HandOver;  // hand_over.h

// A run in somebody else's process: it hands the samples of one node over, keeps nothing, and
// leaves the process's settings, signals and stderr alone.
struct Guest {
  std::string node;  // "batch"
  std::int64_t prefetch = 2;
  std::shared_ptr<HandOver> to;
};

struct Options {
  std::string command, out, resume;
  std::string out_base;    // without `out`: the first free folder of OUT_BASE-1, OUT_BASE-2, ...
  bool overwrite = false;  // a run that is in `out` goes
  bool force = false;      // resume: though its state may mean nothing to this graph
  bool own_graph = false;  // resume: the graph is the one in its folder
  std::vector<std::string> graphs;                    // merged left to right
  std::optional<std::string> text;                    // stands for what the first of them holds
  std::vector<std::string> set;                       // "path=value", "+path=value", "~path"
  int threads = 0, io_threads = 0, step_threads = 0;  // 0: as the graph's `run` says
  double seconds = 0;                                 // how long; 0: the whole run
  std::uint64_t steps = 0;                            // how many from here on; 0: all
  bool quiet = false, json = false, trace = false;
  std::vector<std::string> what_if;  // profile
  bool verify = false, isolate = false, all = false;
  bool warnings = true;  // of the graph; a changed one repeats them
  std::optional<Guest> guest;
  std::vector<std::string> free;  // nodes whose bodies cost nothing, to verify a what-if
  std::function<int()> signal;    // the signal that asks for the end, or 0

  static Options from_json(const Json& j);
};

int run_command(const Options& options);
int profile_command(const Options& options);

}  // namespace sluice
