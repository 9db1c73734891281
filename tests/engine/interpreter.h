// What a Program must give, worked out one packet after another on one thread: no plan, no
// credits, no lanes, and no code of the scheduler but the draws (engine/base/random.h).
//
// A packet goes depth-first through everything after it before the next one starts, which is the
// order that turns and a region of one credit demand; everything else does not depend on order.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/random_graph.h"

namespace sluice::sim {

// What a node wrote down: "0/1/3.0 = value ..." for a sink, "flush 1 = value" where ordered.
using Log = std::vector<std::string>;

struct Results {
  std::map<std::string, Log> logs;  // by path
  std::map<std::string, Log> told;  // what the run's events say of nodes that keep state
  std::map<std::string, std::set<std::string>> bad;  // stamps of what was quarantined
  std::map<std::string, std::string>
      over;  // by node: the stamp of the bad sample that was too many
  std::map<std::string, std::uint64_t> fired;  // firings that emitted or delivered
  std::vector<std::uint64_t> weights;
  std::vector<std::string> turns;  // "stream/epoch" in the order they ended
};

// `stop_behind`: the run ends behind so many turns; -1: it does not.
Results interpret(const Program& program, int stop_behind = -1);

// How both sides write things down.
std::string log_line(const std::string& stamp, const std::vector<std::vector<Value>>& in);
std::string flush_line(std::uint32_t epoch, std::uint64_t state);
// A number that a node logs or measures: as much of the hash as a double holds.
double number_of(std::uint64_t hash);
std::string told_line(const std::string& stamp, double value);

}  // namespace sluice::sim
