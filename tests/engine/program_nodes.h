// A Program as a Graph with toy nodes that write down what they see, and one run of it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/run/simulated_device.h"
#include "tests/engine/interpreter.h"
#include "tests/engine/toy.h"

namespace sluice::sim {

// Everything that outlives a run: networks, nodes' states, what was written down.
struct Memory {
  std::vector<std::uint64_t> weights, states;
  std::map<std::string, Log> logs, told;  // every node has one from the start
  std::vector<std::string> turns;
};

// Where a run asks for a cut.
enum class From : std::uint8_t { begin, end, log, turn, pause, stream, thread };

struct Setup {
  int threads = 2;
  int spare = 0;           // credits beyond what the plan says is needed, at random up to this
  std::uint64_t salt = 0;  // of naps and credits: what must not matter
  Resume resume;
  int stop_behind = -1;       // turns
  std::uint64_t stop_at = 0;  // the firing (log, turn, ...) of the run that calls stop(); 0: none
  From stop_from = From::begin;
  std::uint32_t fail_one_in = 0;  // firings and flushes that throw; 0: none
  bool pauses = false;            // behind every step
  bool device = false;            // nodes of the step and the copy lane work on a simulated one
};

// The program with nothing on those two lanes that the host decides by what a value is: it does not
// know it yet.
Program for_device(Program program);

class Keeper;

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
  // Behind each step within a turn: what a process that goes on from there would load.
  struct Pause {
    Resume at;
    Memory memory;
    bool of_turn = false;  // at its end, where updaters alone stand still
  };
  std::vector<Pause> pauses;
  // Whether a pause has what this node keeps and wrote down.
  bool stands_still(int i, bool of_turn) const;
  // What the run broke besides its results: credits, ledger, live samples. Empty: nothing.
  std::vector<std::string> broken(const Results* expected);

 private:
  struct Events;
  void add(int i);
  void body(int i, Firing& f);
  struct Input;
  Made make(int i, const Stamp& stamp, Random draws, const std::vector<std::vector<Input>>& inputs);
  void queue(int i, Firing& f, std::vector<std::vector<Input>> inputs);
  bool on_device(const Item& n) const {
    return setup_.device && n.lane >= 2 && n.kind != Kind::source;
  }
  Meter* meter_of(int i) const {
    return meters_[static_cast<std::size_t>(plan->nodes[static_cast<std::size_t>(i)].segment)]
        .get();
  }
  void emit(int i, Firing& f, const Made& made);
  void flush(int i, Flush& f);
  void plant(int i, const Stamp& stamp, std::uint64_t salt, bool flushes = false);
  void set_credits();
  void stops(From where);
  Memory still(bool of_turn) const;
  void balance(int i, std::vector<std::string>& found) const;
  void bound(std::vector<std::string>& found) const;
  std::uint64_t draw(std::uint64_t what) const { return mix(setup_.salt ^ mix(what)); }

  const Program& p_;
  Memory& memory_;
  const Setup setup_;
  Pool pool_;  // before the nodes: their caches hold blocks
  toy::Builder b_;
  std::vector<toy::Body*> bodies_;
  std::vector<std::unique_ptr<Meter>> meters_;  // by the gate or source that begins the segment
  std::unique_ptr<Events> events_;
  std::unique_ptr<SimulatedDevice> device_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> until_stop_{0};
  std::map<std::string, std::set<std::string>> bad_;  // stamps of what was quarantined
  std::unique_ptr<Keeper> keeper_;
};

Memory fresh_memory(const Program& program);

}  // namespace sluice::sim
