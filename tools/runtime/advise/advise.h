// `sluice advise`: profiles a graph, tries the changes of engine/judge/advice.h by forecast or by a
// run, and says, proves and writes what pays.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/judge/advice.h"
#include "engine/session/options.h"
#include "tools/runtime/advise/patches.h"
#include "tools/runtime/advise/whole_data.h"

namespace sluice {

struct AdviceOptions {
  Options run;               // graphs, overrides, threads, seconds of each run
  std::string write;         // the changed graph, a new file; "": only printed
  bool exact = false;        // only changes that leave results as they are, to the bit
  bool precision = false;    // changes of a network's precision too
  std::uint64_t memory = 0;  // bytes that caches may take; 0: half of what is free
};

int advise_command(const AdviceOptions& options);

// ---- what came out ------------------------------------------------------------------------------

struct Measured {
  double rate = 0;  // samples a second, in the second half of a run
  Figures figures;
  std::map<std::string, double> kept;  // Session::bytes_kept()
  std::string verdict;
};

struct Advice {
  struct Row {
    Change change;
    double before = 0;   // a second, without it: what it was judged against
    double rate = 0;     // with this change and those above it
    double freed = 0;    // cores that it leaves free, on average
    bool tried = false;  // measured, not predicted
  };
  struct Source {
    std::string name;
    std::int64_t items = -1;  // that it chooses from; -1: nobody knows
    double mb = 0;            // of a sample, the largest that it was on its way
  };
  std::string folder;  // what the training data's folder holds, in lines; "": no known layout
  std::vector<Source> sources;
  std::vector<std::string> misplaced;  // caches where none can stand; measured without them
  Measured before, after;
  std::vector<Row> rows;
  std::map<std::string, double> refused;  // tried in vain: the rate of each
  std::vector<LargestPatch> patches;
  std::vector<WholeData> kept;  // at each cache of the graph as advised
};

void print_advice(const Advice& advice, const std::string& written);  // advise_text.cpp
Json to_json(const Advice& advice);

}  // namespace sluice
