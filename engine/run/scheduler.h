// Turns a Plan into a oneTBB flow graph and runs it once.
//
//   in-port (lightweight function_node) --> inbox of the Station, keyed by stamp
//   Station decides: join, Skip, credit, turn, order        --> work (function_node or async_node)
//   body done --> out-port (broadcast_node) --> in-ports of the successors
//
// Stock edges (limiter, rejecting, reserving join) lose packets after a functional node, so none
// is used: TBB moves packets and runs bodies; what may fire when is decided in station.cpp.
//
// Invariants: results depend on the plan, the seed and the data alone, never on threads or timing;
// completion is proven by counted markers; whatever is not delivered is counted by its reason.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/plan/plan.h"
#include "engine/run/credit.h"
#include "engine/run/device.h"
#include "engine/trace/event_ring.h"
#include "engine/trace/trace.h"

namespace sluice {

class Node;
class Station;
class Turnstile;
struct Hit;
struct Machine;  // the TBB side; scheduler.cpp

// What went wrong, where, on which sample.
struct Failure {
  Exit exit = Exit::data;
  std::string message, node, sample;
  Stamp stamp;
  Place place;  // the node in the graph file
  std::string str() const;
};

// How many went where, in packets of the node's own edges. Every node but the n:1 and the shuffle:
// in = fired + passed + skipped; those two: in = members + skipped. Sources: emitted = fired +
// skipped. `lost` and `delivered` count samples (a batch weighs as many as its members).
struct Ledger {
  std::uint64_t in = 0, fired = 0, passed = 0, out = 0;
  std::uint64_t members = 0, dropped_last = 0;   // n:1 nodes
  std::map<std::string, std::uint64_t> skipped;  // came in as a Skip or became one here, by reason
  std::map<std::string, std::uint64_t> lost;     // samples (weights) that became a Skip here
  std::uint64_t emitted = 0, delivered = 0;      // sources; sinks (weights)
};

struct Quarantined {
  std::string node, sample, message;
  Stamp stamp;
  std::string item;  // which of the data it is: the same in every epoch
};

// Where a resumed run goes on: turns already done, and how many packets of the current training
// epoch, Skips included, the region's gate has dealt with.
struct Resume {
  std::size_t turn = 0;
  std::uint64_t batch = 0;
};

// What a run tells while it runs. Calls come from any thread, one at a time for one node.
struct RunEvents {
  virtual ~RunEvents() = default;
  // Metrics of flush(), for the training epoch the turn belongs to (or the stream's own epoch).
  virtual void metric(int node, std::uint32_t epoch, const std::string& name, double value) {
    (void)node, (void)epoch, (void)name, (void)value;
  }
  // Values that a firing logged; in stamp order for ordered nodes.
  virtual void log(int node, const Stamp& stamp, const std::string& name, double value) {
    (void)node, (void)stamp, (void)name, (void)value;
  }
  // Between two turns, while nobody holds the networks. True: stop the run here.
  virtual bool between(const Turn& ended, std::size_t position) {
    (void)ended, (void)position;
    return false;
  }
  // Where pause() asked for it, within a turn: the nodes of training_region() have done all packets
  // up to `at`, and get no other one before this returns.
  virtual void paused(const Resume& at) { (void)at; }
  virtual void quarantined(const Quarantined&) {}
  // How far the run's other processes have come, told how far this one has: where it waits for them
  // they are what moves. Asked a few times within the watchdog's time, on its thread.
  virtual std::uint64_t progress_elsewhere(std::uint64_t here) {
    (void)here;
    return 0;
  }
  // No progress for the watchdog's time; the run cannot be unwound, so the process should end.
  virtual void stalled(const std::string& report) { (void)report; }
};

struct RunOptions {
  int threads = 2;  // data threads (the compute arena's slots)
  int io_threads = 4;
  bool background = true;  // data threads run at nice 19
  int ahead = 32;          // Firing::emit_each: samples a piece, of which two may wait
  double watchdog_s = 300;
  Resume resume;
  std::uint32_t first_epoch = 0;  // of streams without turns
  std::uint64_t seed = 0;
  int rank = 0, processes = 1;              // which items are this one's (group/shards.h)
  Device* device = nullptr;                 // the copy and the step lane queue their work on it
  std::function<void(LaneKind)> on_thread;  // once on every thread, before it runs a body
  std::vector<Quarantined> quarantined;     // of a run that is resumed
};

struct Outcome {
  enum class Status { done, cut, failed, stalled } status = Status::done;  // cut: something is left
  Failure failure;    // failed: of several, the one with the lowest stamp, then the first path
  std::string stall;  // stalled: who waits for what
  Resume position;    // how far the turns came
};

class Scheduler {
 public:
  // `nodes` by plan index; opened by the caller. Shuffle nodes may be null.
  Scheduler(const Plan& plan, std::vector<Node*> nodes, RunOptions options, RunEvents& events);
  ~Scheduler();

  Outcome run();  // once
  // Asks for a cut: sources end, what is before the last gate is discarded and counted,
  // firings inside a region finish. Safe in a signal handler.
  void stop() noexcept { cut_.store(true); }
  // From a training step, or from what it logs: RunEvents::paused is told behind it. If no packet
  // of the turn is left, and where there is no training_region(), between() comes in its place.
  void pause() noexcept {
    Pause none = Pause::none;
    pause_.compare_exchange_strong(none, Pause::asked);
  }
  bool pausing() const noexcept { return pause_.load() != Pause::none; }

  const Ledger& ledger(int node) const;
  const Counters& counters(int node) const;
  EventRings& events() { return rings_; }
  // Every node's counters now; once the run has ended, as they stood before what was left in
  // flight was let go of. From any thread.
  std::vector<Reading> readings() const;
  std::vector<Quarantined> quarantined() const;  // each sample once a node, as it was first
  // Of a stream's nodes that may quarantine: how many samples each has found bad up to this epoch,
  // those that were known before a resume apart, and how many it may.
  struct BadCount {
    int node = 0;
    std::int64_t here = 0, before = 0, budget = 0;
  };
  std::vector<BadCount> bad_counts(int stream, std::uint32_t epoch) const;
  std::int64_t began_ns() const { return begin_ns_; }
  // Who holds the networks that learn; nullopt without any, and when all turns have ended.
  std::optional<Turn> turn() const;
  int credits_out(int node) const;  // of the segment that begins at this node
  double wall_s() const {           // so far
    return static_cast<double>((end_ns_ ? end_ns_.load() : now_ns()) - begin_ns_) * 1e-9;
  }
  std::uint64_t progress() const { return progress_.load(); }
  std::string stall_report() const;  // who waits for what

 private:
  friend class Station;
  friend class StationTimes;
  int index(const PlanNode& node) const { return static_cast<int>(&node - plan_.nodes.data()); }
  // Of a node in its run; -1: it is in none.
  int position_in_run(int node) const { return position_in_run_[static_cast<std::size_t>(node)]; }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  bool halted() const { return failed() || closing_.load(std::memory_order_relaxed); }
  bool cutting() const { return cut_.load(std::memory_order_relaxed); }
  void fail(Failure failure);
  void take_over_quarantined();
  bool quarantine(Quarantined what, Exit exit, int node);  // false: far over the budget
  void judge(const PlanNode& ended, std::uint32_t epoch);  // of budgets, at an epoch's end
  void judge(int node, std::uint32_t epoch);
  bool between(const Turn& ended);
  bool region_is_done() const;
  bool take_pause() noexcept;
  void paused(Station& gate, const Stamp& next, std::uint64_t trained);
  void wake_gates();
  void guard(int node, const Stamp& stamp, const std::function<void()>& call);
  void turn_closed(Station& station, std::uint32_t epoch, bool cut);
  std::shared_ptr<const std::vector<Hit>> look_up(int stream, std::uint64_t item) const;
  std::uint32_t train_epoch(int stream, std::uint32_t epoch) const;
  bool all_done() const;
  std::shared_ptr<const void> held(Credit credit);
  bool one_stream(const PlanNode& gate) const;
  void when_done(int node, const Stamp& stamp, PointPtr mark,
                 std::function<void(std::int64_t reached_ns)> then);
  void chain();
  void work();
  void work_off();
  void close();
  void watch();
  void position(Resume& at) const;

  const Plan& plan_;
  const std::vector<Node*> nodes_;
  const RunOptions options_;
  RunEvents& events_;
  EventRings rings_;
  std::atomic<bool> cut_{false}, failed_{false}, shortened_{false}, closing_{false};
  enum class Pause : std::uint8_t { none, asked, taken };
  std::atomic<Pause> pause_{Pause::none};
  const std::vector<int> region_;  // training_region()
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<int> urgent_{0};  // firings of compute gates that wait for a thread
  mutable std::mutex mutex_;    // failure and quarantine
  Failure failure_;
  struct Bad {
    Quarantined what;
    Exit exit;
    bool before = false;  // the resume
  };
  std::vector<std::map<std::string, Bad>> bad_;  // by node and item, each as it was first
  std::unique_ptr<Turnstile> turnstile_;         // null where nothing trains
  std::vector<int> position_in_run_;             // by node
  std::vector<std::uint32_t> first_epoch_;       // by stream
  std::unique_ptr<Machine> machine_;
  std::vector<std::unique_ptr<Station>> stations_;
  std::atomic<std::int64_t> begin_ns_{0}, end_ns_{0};
  std::vector<Reading> last_;  // at the end; under mutex_
  bool finished_ = false;      // the watchdog's; under mutex_
  std::condition_variable finish_;
};

}  // namespace sluice
