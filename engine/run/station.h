// A Station is one plan node at run time: its inbox, its order, its credits, its epochs. It
// decides what may fire; TBB and the lanes run it. Private to the scheduler.
//
// Invariants:
//  - decisions are made under the station's lock and carried out after it is released (Actions),
//    so that dropping a packet, which may wake any other station, never happens under a lock;
//  - a sequenced station (ordered, gate, n:1, shuffle) admits stamps in order, each exactly once;
//  - of a chain (1:1 compute nodes one after the other, without limit, order or store) a packet
//    passes all stations in one firing of the first; Skips and markers go from station to station;
//  - where a stream counts by places (group/shards.h), a gather's packet is made of the members
//  whose
//    items belong to it, and is a Skip where none came; in a sharded training region Skips take the
//    credit too, and updaters fire for them, so that a step is over on all ranks alike;
//  - an epoch is closed when every port brought its marker, they agree, and as many packets have
//    been dealt with; then, and in epoch order, its own marker goes out;
//  - a list that a body leaves to be made (Firing::emit_each) goes on, some samples at a time, in
//    bodies of their own, as the next gates take those before; a cut ends it with a Skip;
//  - what a firing queued on a device counts as flying until the device has done it, so flushes,
//    epochs' ends and turns come after it; a host's lane gets a sample only when it is done.
#pragma once

#include <tbb/flow_graph.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/cause.h"
#include "engine/plan/plan.h"
#include "engine/run/credit.h"
#include "engine/run/device.h"
#include "engine/run/lane.h"
#include "engine/run/node.h"
#include "engine/run/packet.h"
#include "engine/run/scheduler.h"
#include "engine/run/turnstile.h"
#include "engine/trace/nvtx.h"
#include "engine/trace/trace.h"

namespace sluice {

// One firing on its way: made under the lock, run on a lane. Recycled, so that a firing allocates
// nothing once the run is warm.
struct Job {
  enum class Kind { fire, flush } kind = Kind::fire;
  Stamp stamp;
  std::vector<std::vector<Packet>> inputs;  // by input; several packets for a gather
  Credit credit;                            // of the segment that begins here
  struct List {                             // what Firing::emit_each leaves
    Packet packet;                          // what each of its packets carries
    std::shared_ptr<CreditPool> window;     // of the pieces that wait to be taken
    Credit piece;                           // of the one that is made now
    std::uint32_t sent = 0;
    bool holds_samples = false;  // and not only places of those that are left out
  };
  std::unique_ptr<List> list;
  std::shared_ptr<const std::vector<Hit>> hits;  // a source's look-ups
  bool asked = false;                            // they are done
  bool looks = false;                            // and the source went on meanwhile
  Firing firing;

  // On a device's lane the job stays until the device is done: with all that it read and made.
  std::int64_t began = 0;  // to be queued
  PointPtr mark;
  std::vector<std::shared_ptr<const void>> kept;
  std::optional<CacheStore::Entry> entry;  // for the store

  static Job* make(Kind kind, const Stamp& stamp, std::size_t inputs);
  void let_go();  // of all that it holds; not under a lock: credits go home
  static void recycle(Job* job);
};

class StationTimes;

class Station {
 public:
  Station(Scheduler& scheduler, int index, Node* node, std::uint32_t first_epoch);
  ~Station();

  // lane: null on the compute arena; stream: of a device, the lane's
  void build(tbb::flow::graph& graph, Lane* lane, Stream* stream);
  void connect(Station& to, const PlanEdge& edge, int from_port);

  void deliver(int input, const Packet& packet) noexcept;
  void kick() noexcept;
  void run(Job* job) noexcept;
  void run_on(Job* job) noexcept;  // on a data thread: it and what follows from it
  void clear();  // after the graph drained: drops what is left and closes the pool

  bool done() const;
  std::string waiting_for() const;  // for the stall report; "" where it is done
  Reading read(std::int64_t now) const;
  const PlanNode& plan() const { return plan_; }

  Ledger ledger;
  Counters counters;
  std::shared_ptr<CreditPool> pool;  // gates and sources

  struct Spare;  // what a thread keeps to use again

 private:
  friend class Scheduler;
  friend class StationTimes;
  struct Slot {
    Stamp stamp;
    std::vector<Packet> in;  // by input; kind epoch_end marks "not come yet"
    int have = 0;            // how many have come
  };
  struct Epoch {
    std::vector<std::int64_t> expected;  // by input; -1: the marker has not come
    std::vector<std::uint64_t> sent;     // by out-port
    std::uint64_t in = 0, skipped = 0, passed = 0, fired = 0;
    std::uint64_t consumed = 0;
    int flying = 0;
    std::uint64_t trained = 0;  // training gate: packets dealt with when it last fired
    bool cut = false, flushed = false;
  };
  struct Action {
    enum class Kind { send, launch, turn, pause, remember, drop } kind;  // drop: outside the lock
    Station* station;
    int port = 0;
    Packet packet{};
    Job* job = nullptr;
  };
  using Actions = std::vector<Action>;
  // Of an expand node's firing: the number of the first packet to send, and whether the last of all
  // is among them.
  struct Children {
    std::uint32_t first;
    bool last;
  };
  enum class Fate { fire, skip, discard, pass, stored, replay };

  // station.cpp: what may happen now
  Epoch& epoch(std::uint32_t e);
  void forget(std::uint32_t e);
  void receive(int input, const Packet& packet, Actions& actions);
  void place(const Stamp& stamp, std::span<Packet> in, Actions& actions);
  void pump(Actions& actions);
  bool admit_next(Actions& actions);
  void go_on_with_lists(Actions& actions);
  bool pause(Actions& actions);
  bool admit(Slot& slot, Fate fate, Actions& actions);
  Fate fate(std::span<const Packet> in, bool cut) const;
  bool is_hole(const Packet& p) const;
  bool is_whole() const;
  bool is_mine(const Stamp& stamp) const;
  bool replays(std::uint32_t e) const;
  bool turn_open(std::uint32_t e) const;
  bool pass_boundary(Actions& actions);
  bool boundary_reached(const Epoch& e) const;
  Packet end_of_epoch(bool cut) const;
  void close_epochs(Actions& actions);
  void settle(Slot slot, Fate fate, Actions& actions);
  Credit gate_credit() const;
  bool launch(const Stamp& stamp, std::span<Packet> in, Actions& actions);  // takes `in` if true
  bool launch_group(Actions& actions);
  void skip_group(Actions& actions);
  void drop_group(const std::string* reason, Actions& actions);
  void shuffle_out(Actions& actions, bool all);
  void flush(Actions& actions);
  void pump_source(Actions& actions);
  void end_source_epoch(bool cut, Actions& actions);
  void send(int port, Packet packet, Actions& actions);
  void send_stream_end(std::uint32_t epochs, Actions& actions);
  void send_skip(const Stamp& stamp, const std::string* reason, const Packet& like, Credit credit,
                 Actions& actions);
  Failure imbalance(const Epoch& e) const;
  void note_waiting();
  bool ahead_enough() const { return paced_ && retiring_ >= run_ahead; }
  int limit() const { return plan_.ordered ? 1 : plan_.concurrency; }
  bool cutting() const { return plan_.discards && scheduler_.cutting(); }
  bool aborting() const { return plan_.aborts && scheduler_.cutting(); }

  // station_fire.cpp: bodies and what they emitted
  bool fire(Job& job, Actions& actions);  // true: the job waits in parked_
  void look_up(Job& job);
  SamplePtr kept(Job& job, std::uint64_t item);
  const std::string* attempt(Job& job, std::int64_t start);
  bool chains() const;
  bool goes_on(Job& job) const;
  void hand_over(Job& job);
  void count_chained(const Job& job);
  bool body(Firing& firing, std::int64_t start, Cause& why);
  void note_body(Firing& firing, const StationTimes& times, std::int64_t start, std::int64_t end);
  void note_run(Firing& firing, const StationTimes& times);
  std::uint32_t note_time(Firing& firing, std::int64_t ns);
  void tell_logs(Firing& firing);
  void note_slow(Firing& firing, std::int64_t ns);
  void trace(Firing& firing, std::int64_t start, std::int64_t end);
  void trace_link(const Stamp& stamp, const Stamp& from);
  std::string item_of(const Job& job) const;
  const std::string* failed_body(const Job& job, Cause why);
  const PlanNode& to_blame(std::string& why) const;
  const std::string* verdict(const Firing& firing, bool emitted) const;
  void remember(Job& job);
  void remember(std::uint64_t item, CacheStore::Entry entry, const Stamp& stamp);
  void run_flush(Job& job, Actions& actions);
  void emit(Job& job, const std::string* skip, Actions& actions);
  Packet carried(Job& job) const;
  bool urgent() const { return plan_.gate && plan_.lane == LaneKind::compute; }
  void emit_source(Job& job, const std::string* skip, Actions& actions);
  void emit_ports(std::vector<Firing::Out>& outs, Packet base, const std::string* reason,
                  Actions& actions, const Children& children);
  void finish(const Job& job);
  void over(const Job& job);

  // station_device.cpp: what the device has not done yet
  void await_inputs(const Job& job);
  void keep_made(Firing& firing);
  void hold(Job& job);
  void retire(Job* job);
  void retired(Job* job, std::int64_t done_ns) noexcept;
  void note_device(Job& job, std::int64_t done_ns);
  void read_later(Job& job);
  void deliver_when_done(int input, const Packet& packet);
  static Actions fresh();        // an empty list that has room
  static std::int64_t moment();  // the time, read once between two bodies of a thread
  static void perform(Actions actions);
  static void act(Action& action);
  void start(Job* job);

  Scheduler& scheduler_;
  const int index_;
  const PlanNode& plan_;
  const Division& division_;  // of its stream
  Node* const node_;
  CacheStore* const store_;
  const std::uint64_t key_;
  const NvtxName nvtx_;
  const std::function<bool()> stopped_;
  const bool sequenced_;
  const bool decollates_;     // takes batches apart
  Stream* stream_ = nullptr;  // a device's lane
  bool paced_ = false;        // a training region's gate there: runs `run_ahead` steps ahead
  static constexpr int run_ahead = 2;
  Turnstile* turnstile_ = nullptr;  // gates bound to turns
  Turnstile* ends_ = nullptr;       // the training region and validation sinks
  bool pauses_ = false;             // the gate of training_region()

  // A chain: the station that alone gets what this one emits, and works on it in the same firing.
  // Its stations share the mutex of the first.
  Station* chained_ = nullptr;
  bool in_chain_ = false;  // it has one in front

  mutable std::mutex own_mutex_;
  std::mutex* mutex_ = &own_mutex_;
  std::map<Stamp, Slot> inbox_;  // joins in the making; sequenced: also complete slots
  std::deque<Slot> ready_;       // not sequenced: may fire in any order
  std::vector<Job*> parked_;     // their lists go on when what was made of them is taken
  Stamp next_;                   // sequenced: the stamp to admit
  std::vector<Slot> group_;      // gather: members so far; shuffle: the window
  std::uint64_t ordinal_ = 0;    // gather, shuffle: the next index of this epoch; source: too
  const std::string* absent_ = nullptr;  // gather by places: why one of the group's is not there
  std::map<std::uint32_t, Epoch> epochs_;
  Epoch* recent_ = nullptr;  // the one asked for last, and its number
  std::uint32_t recent_number_ = 0;
  std::uint32_t close_epoch_;        // the next epoch to close
  std::int64_t epoch_size_ = -1;     // packets of the last one closed
  std::int64_t stream_epochs_ = -1;  // from StreamEnd
  std::size_t stream_ends_ = 0;
  std::optional<std::pair<std::uint32_t, std::uint64_t>> cut_at_;  // first epoch cut: `trained`
  int running_ = 0;
  bool reads_ = false;            // a source: its caches read files
  bool on_compute_ = true;        // its bodies run in the compute arena, on no lane
  int looking_ = 0;               // so many of its items are being looked for
  std::atomic<int> retiring_{0};  // firings that the device has not done yet
  std::atomic<int> awaiting_{0};  // packets that it has not done yet
  bool flushing_ = false, done_ = false;
  enum class Wait { none, input, credit } wait_ = Wait::input;
  std::int64_t wait_since_ = 0;

  std::vector<std::unique_ptr<
      tbb::flow::function_node<Packet, tbb::flow::continue_msg, tbb::flow::lightweight>>>
      ins_;
  std::unique_ptr<tbb::flow::receiver<Job*>> work_;
  std::vector<std::unique_ptr<tbb::flow::broadcast_node<Packet>>> outs_;
};

}  // namespace sluice
