// A Program as a Graph with toy nodes that write down what they see, and one run of it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/engine/interpreter.h"
#include "tests/engine/toy.h"

namespace sluice::sim {

// Everything that outlives a run: networks, nodes' states, what was written down.
struct Memory {
  std::vector<std::uint64_t> weights, states;
  std::map<std::string, Log> logs;  // every node has one from the start
  std::vector<std::string> turns;
};

struct Setup {
  int threads = 2;
  int spare = 0;           // credits beyond what the plan says is needed, at random up to this
  std::uint64_t salt = 0;  // of naps and credits: what must not matter
  Resume resume;
  int stop_behind = -1;           // turns
  std::uint64_t stop_at = 0;      // the firing of the run that calls stop(); 0: none
  std::uint32_t fail_one_in = 0;  // firings and flushes that throw; 0: none
};

class Trial {
 public:
  Trial(const Program& program, Memory& memory, Setup setup);
  ~Trial();
  void run();

  Outcome outcome;
  Plan* plan = nullptr;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<std::pair<Stamp, std::string>> thrown;  // stamp and node of each planted failure
  std::int64_t first_throw_ns = 0;
  bool flush_threw = false;
  // What the run broke besides its results: credits, ledger, live samples. Empty: nothing.
  std::vector<std::string> broken(const Results* expected);

 private:
  struct Events;
  void add(int i);
  void body(int i, Firing& f);
  void emit(int i, Firing& f, const Made& made);
  void flush(int i, Flush& f);
  void plant(int i, const Stamp& stamp, std::uint64_t salt, bool flushes = false);
  void set_credits();
  void balance(int i, std::vector<std::string>& found) const;
  void bound(std::vector<std::string>& found) const;
  std::uint64_t draw(std::uint64_t what) const { return mix(setup_.salt ^ mix(what)); }

  const Program& p_;
  Memory& memory_;
  const Setup setup_;
  toy::Builder b_;
  std::vector<toy::Body*> bodies_;
  std::vector<std::unique_ptr<Meter>> meters_;  // by the gate or source that begins the segment
  std::unique_ptr<Events> events_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> firings_{0};
};

Memory fresh_memory(const Program& program);

}  // namespace sluice::sim
