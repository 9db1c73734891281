#include "engine/run/scheduler.h"

#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <tuple>

#include "engine/run/lane.h"
#include "engine/run/standstill.h"
#include "engine/run/station.h"
#include "engine/run/turnstile.h"

namespace sluice {

namespace {

// Prepares every thread that enters the data arena: low priority, LibTorch's thread settings.
class Arrival final : public tbb::task_scheduler_observer {
 public:
  Arrival(tbb::task_arena& arena, const RunOptions& options)
      : tbb::task_scheduler_observer(arena), options_(options) {
    observe(true);
  }
  ~Arrival() override { observe(false); }
  void on_scheduler_entry(bool) override {
    thread_local const void* prepared = nullptr;
    if (prepared == this) return;
    prepared = this;
    name_thread("sluice-data");
    if (options_.background) make_thread_background();
    if (options_.on_thread) options_.on_thread(LaneKind::compute);
  }

 private:
  const RunOptions& options_;
};

}  // namespace

struct Machine {
  explicit Machine(const RunOptions& options)
      // More workers than cores where asked: the tests need 8 slots on 2 cores.
      : parallelism(tbb::global_control::max_allowed_parallelism,
                    static_cast<std::size_t>(options.threads) + 1),
        arena(options.threads, 1) {
    arena.execute([this] { graph = std::make_unique<tbb::flow::graph>(); });
  }
  tbb::global_control parallelism;
  tbb::task_arena arena;
  // Not before the run: the thread that builds the graph enters the arena too, but it and the
  // lanes' threads, which inherit its priority, must keep theirs.
  std::unique_ptr<Arrival> arrival;
  std::unique_ptr<Lane> io, step, copy;
  std::vector<std::unique_ptr<Lane>> merging;  // a thread for each node that awaits other processes
  // Of each lane that queues its work on a device: its stream, and a thread that waits for it.
  struct Queue {
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Lane> done;
  };
  Queue step_queue, copy_queue;
  std::unique_ptr<tbb::flow::graph> graph;
};

// ---- the TBB side of a station ------------------------------------------------------------------

void Station::build(tbb::flow::graph& graph, Lane* lane, Stream* stream) {
  using namespace tbb::flow;
  stream_ = stream;
  on_compute_ = !lane;
  paced_ = stream && scheduler_.one_stream(plan_);
  if (paced_) pool->until_queued = stream;
  for (std::size_t i = 0; i < plan_.inputs.size(); ++i)
    ins_.push_back(std::make_unique<function_node<Packet, continue_msg, lightweight>>(
        graph, unlimited, [this, i](const Packet& p) noexcept {
          deliver(static_cast<int>(i), p);
          return continue_msg();
        }));
  for (std::size_t i = 0; i < plan_.outs.size(); ++i)
    outs_.push_back(std::make_unique<broadcast_node<Packet>>(graph));
  if (!lane) {
    work_ = std::make_unique<function_node<Job*, continue_msg>>(
        graph, unlimited,
        [this](Job* job) noexcept {
          run_on(job);
          return continue_msg();
        },
        plan_.gate ? node_priority_t(1) : no_priority);
    return;
  }
  // No TBB task stands between two firings of a lane: the hand-over is lightweight.
  using Async = async_node<Job*, continue_msg, queueing_lightweight>;
  work_ = std::make_unique<Async>(
      graph, unlimited, [this, lane](Job* const& job, Async::gateway_type& gateway) noexcept {
        gateway.reserve_wait();
        lane->submit([this, job, &gateway] {
          run(job);
          gateway.release_wait();
        });
      });
}

void Station::connect(Station& to, const PlanEdge& edge, int from_port) {
  const auto& inputs = to.plan_.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].port == edge.port)
      tbb::flow::make_edge(*outs_[static_cast<std::size_t>(from_port)], *to.ins_[i]);
}

// ---- set-up --------------------------------------------------------------------------------

Scheduler::Scheduler(const Plan& plan, std::vector<Node*> nodes, RunOptions options,
                     RunEvents& events)
    : plan_(plan),
      nodes_(std::move(nodes)),
      options_(std::move(options)),
      events_(events),
      region_(training_region(plan)),
      bad_(plan.nodes.size()),
      position_in_run_(plan.nodes.size(), -1),
      first_epoch_(plan.streams.size(), options_.first_epoch) {
  for (const PlanRun& run : plan.runs)
    for (std::size_t k = 0; k < run.nodes.size(); ++k)
      position_in_run_[static_cast<std::size_t>(run.nodes[k])] = static_cast<int>(k);
  if (plan.turns) {
    turnstile_ = std::make_unique<Turnstile>(plan, options_.resume.turn,
                                             [this](const Turn& ended) { return between(ended); });
    for (std::size_t s = 0; s < plan.streams.size(); ++s)
      if (plan.streams[s].takes_turns)
        first_epoch_[s] =
            turnstile_->sequence().epochs_before(static_cast<int>(s), options_.resume.turn);
  }
  take_over_quarantined();
  machine_ = std::make_unique<Machine>(options_);
  auto start = [this](LaneKind kind, Stream* stream) {
    return [this, kind, stream] {
      if (kind != LaneKind::step && options_.background && !stream) make_thread_background();
      if (options_.on_thread) options_.on_thread(kind);
      if (stream) stream->enter();
    };
  };
  auto stream = [&](LaneKind kind) -> Stream* {
    if (kind == LaneKind::compute || kind == LaneKind::io || !options_.device) return nullptr;
    auto& q = kind == LaneKind::step ? machine_->step_queue : machine_->copy_queue;
    if (q.stream) return q.stream.get();
    q.stream = options_.device->stream(kind == LaneKind::step);
    q.done = std::make_unique<Lane>(kind == LaneKind::step ? "stepped" : "copied", 1, [this] {
      if (options_.on_thread) options_.on_thread(LaneKind::copy);
    });
    return q.stream.get();
  };
  auto lane = [&](LaneKind kind) -> Lane* {
    if (kind == LaneKind::compute) return nullptr;
    auto& l = kind == LaneKind::io     ? machine_->io
              : kind == LaneKind::step ? machine_->step
                                       : machine_->copy;
    const char* name = kind == LaneKind::io ? "io" : kind == LaneKind::step ? "step" : "copy";
    if (!l)
      l = std::make_unique<Lane>(name, kind == LaneKind::io ? options_.io_threads : 1,
                                 start(kind, stream(kind)));
    return l.get();
  };
  // At an epoch's end it waits for the other processes' parts: on a compute thread two processes
  // could stand still, each with its threads waiting in another node.
  auto lane_of = [&](const PlanNode& n) {
    if (options_.processes == 1 || !n.spec->merging || n.lane != LaneKind::compute)
      return lane(n.lane);
    const auto begin = start(n.lane, nullptr);
    return machine_->merging.emplace_back(std::make_unique<Lane>("merge", 1, begin)).get();
  };
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& n = plan.nodes[i];
    auto s = std::make_unique<Station>(*this, static_cast<int>(i), nodes_[i],
                                       first_epoch_[static_cast<std::size_t>(n.stream)]);
    if (n.takes_turns && n.gate) s->turnstile_ = turnstile_.get();
    if (turnstile_ && turnstile_->ends(static_cast<int>(i))) s->ends_ = turnstile_.get();
    s->pauses_ = !region_.empty() && region_.front() == static_cast<int>(i);
    machine_->arena.execute([&] { s->build(*machine_->graph, lane_of(n), stream(n.lane)); });
    stations_.push_back(std::move(s));
  }
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    for (std::size_t port = 0; port < plan.nodes[i].outs.size(); ++port)
      for (const PlanEdge& e : plan.nodes[i].outs[port])
        stations_[i]->connect(*stations_[static_cast<std::size_t>(e.to)], e,
                              static_cast<int>(port));
  chain();
  for (const PlanStream& stream : plan.streams)
    for (const int cache : stream.caches)
      stations_[static_cast<std::size_t>(stream.source)]->reads_ |=
          stations_[static_cast<std::size_t>(cache)]->store_->reads();
}

// Whether the order of one stream keeps the steps of this training region apart, so that the host
// may queue the next one while the device works on this.
bool Scheduler::one_stream(const PlanNode& gate) const {
  if (!gate.begins_training()) return false;
  return std::all_of(plan_.nodes.begin(), plan_.nodes.end(), [&](const PlanNode& n) {
    return !n.training || n.stream != gate.stream || n.lane == gate.lane;
  });
}

// Calls `then` on the thread that waits for the mark's stream, once the device is past the mark.
void Scheduler::when_done(int node, const Stamp& stamp, PointPtr mark,
                          std::function<void(std::int64_t reached_ns)> then) {
  machine_->graph->reserve_wait();
  const bool step = mark->of == machine_->step_queue.stream.get();
  Lane& lane = step ? *machine_->step_queue.done : *machine_->copy_queue.done;
  lane.submit([this, node, stamp, mark = std::move(mark), then = std::move(then)]() mutable {
    std::int64_t reached_ns = 0;
    guard(node, stamp, [&] { reached_ns = mark->wait(); });
    then(reached_ns ? reached_ns : now_ns());
    then = nullptr;
    mark.reset();
    machine_->graph->release_wait();
  });
}

// A credit that somebody outside of the run keeps: the run is not over before it is home.
std::shared_ptr<const void> Scheduler::held(Credit credit) {
  struct Held {
    tbb::flow::graph& graph;
    Credit credit;
    Held(tbb::flow::graph& g, Credit c) : graph(g), credit(std::move(c)) { graph.reserve_wait(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      credit.reset();
      graph.release_wait();
    }
  };
  return std::make_shared<const Held>(*machine_->graph, std::move(credit));
}

// From the first of each chain on, so that all share its mutex.
void Scheduler::chain() {
  for (int i : plan_.order) {
    Station& from = *stations_[static_cast<std::size_t>(i)];
    if (!from.chains() || from.plan_.outs.front().size() != 1) continue;
    Station& to = *stations_[static_cast<std::size_t>(from.plan_.outs.front().front().to)];
    if (!to.chains() || to.plan_.inputs.size() != 1) continue;
    from.chained_ = &to;
    to.in_chain_ = true;
    to.mutex_ = from.mutex_;
  }
}

Scheduler::~Scheduler() { close(); }

// ---- running ------------------------------------------------------------------------------

// wait_for_all on a thread of our own inside the arena, since it runs bodies itself: they get the
// data threads' priority, and the caller's thread keeps its own.
void Scheduler::work_off() {
  const auto wait = [this] {
    machine_->arena.execute([this] { machine_->graph->wait_for_all(); });
  };
  for (auto& s : stations_)
    if (s->plan().is_source()) s->kick();
  wait();
  // A station may wait for an event that a cut made impossible: each is asked once more. If nothing
  // moves then, nothing ever will.
  while (!failed() && !all_done()) {
    const std::uint64_t before = progress_;
    for (auto& s : stations_) s->kick();
    wait();
    if (progress_ == before) break;
  }
}

// Nothing begins before both threads are there.
void Scheduler::work() {
  Lane watchdog("watch", 1, nullptr);
  {
    Lane waiter("data", 1, nullptr);
    watchdog.submit([this] { watch(); });
    waiter.submit([this] { work_off(); });
  }
  end_ns_ = now_ns();
  std::vector<Reading> last = readings();
  {
    std::lock_guard lock(mutex_);
    last_ = std::move(last);
    finished_ = true;
  }
  finish_.notify_all();
}

Outcome Scheduler::run() {
  begin_ns_ = now_ns();
  machine_->arrival = std::make_unique<Arrival>(machine_->arena, options_);
  work();
  Outcome out;
  if (failed()) {
    out.status = Outcome::Status::failed;
    out.failure = failure_;
  } else if (!all_done()) {
    out.status = Outcome::Status::stalled;
    out.stall = stall_report();
  } else if (shortened_ || turn()) {  // streams that run freely may have ended before their turn
    out.status = Outcome::Status::cut;
  }
  position(out.position);
  close();
  return out;
}

// How far the turns came, and how far the training epoch that was cut. Of several gates the one
// that admitted least: what another admitted beyond was joined with a Skip, so it updated nothing.
void Scheduler::position(Resume& at) const {
  if (!turnstile_) return;
  const Turnstile& t = *turnstile_;
  at.turn = t.position();
  if (at.turn >= t.sequence().size()) return;
  const Turn turn = t.sequence()[at.turn];
  std::optional<std::uint64_t> least;
  for (const auto& s : stations_) {
    if (s->turnstile_ != &t || !s->plan_.training || s->plan_.stream != turn.stream) continue;
    if (!s->cut_at_ && s->close_epoch_ > turn.epoch) continue;  // this one had all of it
    const bool here = s->cut_at_ && s->cut_at_->first == turn.epoch;
    least = std::min(least.value_or(~0ull), here ? s->cut_at_->second : 0);
  }
  at.batch = least.value_or(0);
  if (at.turn == options_.resume.turn) at.batch = std::max(at.batch, options_.resume.batch);
}

// Nothing runs any more: let go of what is left, join the lanes, destroy TBB's nodes. Pools are
// closed first, else what is let go of would wake a gate that stands still and fire its body.
void Scheduler::close() {
  if (!machine_) return;
  closing_ = true;
  for (auto& s : stations_)
    if (s->pool) s->pool->close();
  for (auto& s : stations_) s->clear();
  machine_->arrival.reset();  // the graph's destructor enters the arena on the caller's thread
  for (auto* lane : {&machine_->io, &machine_->step, &machine_->copy, &machine_->step_queue.done,
                     &machine_->copy_queue.done})
    lane->reset();
  machine_->merging.clear();
  for (auto& s : stations_) {
    s->ins_.clear();
    s->outs_.clear();
    s->work_.reset();
  }
  machine_.reset();
}

void Scheduler::watch() {
  if (options_.watchdog_s <= 0) return;
  const auto between_questions = std::chrono::duration<double>(options_.watchdog_s / 8);
  Standstill standstill;
  std::uint64_t elsewhere = 0;
  auto asked = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!finish_.wait_for(lock, std::chrono::milliseconds(20), [this] { return finished_; })) {
    if (const auto now = std::chrono::steady_clock::now(); now - asked >= between_questions) {
      lock.unlock();
      elsewhere = events_.progress_elsewhere(progress_);
      asked = now;
      lock.lock();
    }
    if (!standstill.longer_than(options_.watchdog_s, progress_ + elsewhere)) continue;
    lock.unlock();
    std::ostringstream report;
    report << "no firing ended for " << options_.watchdog_s << " s\n" << stall_report();
    events_.stalled(report.str());
    lock.lock();
  }
}

bool Scheduler::all_done() const {
  return std::all_of(stations_.begin(), stations_.end(), [](const auto& s) { return s->done(); });
}

std::string Scheduler::stall_report() const {
  std::string report;
  for (const auto& s : stations_) {
    const std::string line = s->waiting_for();
    if (!line.empty()) report += "  " + line + "\n";
  }
  return report;
}

void Scheduler::turn_closed(Station& station, std::uint32_t epoch, bool cut) {
  if (station.ends_->closed(station.index_, epoch, cut)) wake_gates();
}

void Scheduler::wake_gates() {
  for (auto& s : stations_)
    if (s->turnstile_) s->kick();
}

// The hook of the stop rule and the checkpoint; what it throws (a full disk) ends the run.
bool Scheduler::between(const Turn& ended) {
  Stamp stamp = Stamp::first(static_cast<std::uint32_t>(ended.stream), ended.epoch, 0);
  bool last = true;  // where it throws, too
  guard(plan_.turns->updaters.front(), stamp,
        [&] { last = events_.between(ended, turnstile_->position() + 1); });
  pause_ = Pause::none;
  if (last) stop();
  return last;
}

// Whether the device has done what the region queued: its credit comes home before that.
bool Scheduler::region_is_done() const {
  return std::none_of(region_.begin(), region_.end(), [this](int i) {
    return stations_[static_cast<std::size_t>(i)]->retiring_ > 0;
  });
}

bool Scheduler::take_pause() noexcept {
  Pause asked = Pause::asked;
  return pause_.compare_exchange_strong(asked, Pause::taken);
}

void Scheduler::paused(Station& gate, const Stamp& next, std::uint64_t trained) {
  guard(gate.index_, next, [&] { events_.paused({turnstile_->position(), trained}); });
  pause_ = Pause::none;
  ++progress_;
  gate.kick();
}

// Every cache of the stream that knows the item, the last one first: a cache in the prefix of one
// that hit is passed, so its entry need not be read.
std::shared_ptr<const std::vector<Hit>> Scheduler::look_up(int stream, std::uint64_t item) const {
  std::vector<Hit> hits;
  const auto& caches = plan_.streams[static_cast<std::size_t>(stream)].caches;
  for (auto cache = caches.rbegin(); cache != caches.rend(); ++cache) {
    const auto& passed_by = plan_.nodes[static_cast<std::size_t>(*cache)].prefix_of;
    if (std::any_of(hits.begin(), hits.end(), [&](const Hit& h) {
          return std::find(passed_by.begin(), passed_by.end(), h.cache) != passed_by.end();
        }))
      continue;
    if (auto entry = stations_[static_cast<std::size_t>(*cache)]->store_->find(item))
      hits.push_back({*cache, std::move(*entry)});
  }
  if (hits.empty()) return nullptr;
  return std::make_shared<const std::vector<Hit>>(std::move(hits));
}

std::uint32_t Scheduler::train_epoch(int stream, std::uint32_t epoch) const {
  if (!plan_.streams[static_cast<std::size_t>(stream)].takes_turns) return epoch;
  return turnstile_->sequence().train_epoch(stream, epoch);
}

// ---- failures -----------------------------------------------------------------------------

void Scheduler::fail(Failure failure) {
  std::lock_guard lock(mutex_);
  if (!failed_ || std::tie(failure.stamp, failure.node) < std::tie(failure_.stamp, failure_.node))
    failure_ = std::move(failure);
  failed_ = true;
  ++progress_;
}

static std::size_t budget_of(const GraphNode& node, const RunSettings& run) {
  return static_cast<std::size_t>(
      std::max<std::int64_t>(0, node.max_bad >= 0 ? node.max_bad : run.max_bad));
}

// A sample that is bad in every epoch counts once. Which one is one too many must not depend on
// which was read first, so the epoch's end says it. A node that fails on everything is not waited
// for.
bool Scheduler::quarantine(Quarantined what, Exit exit, int node) {
  const std::size_t budget =
      budget_of(*plan_.nodes[static_cast<std::size_t>(node)].graph, plan_.graph->run);
  {
    std::lock_guard lock(mutex_);
    auto& bad = bad_[static_cast<std::size_t>(node)];
    const auto known = bad.find(what.item);
    if (known == bad.end() && bad.size() >= 2 * budget) return false;
    if (known == bad.end() || what.stamp < known->second.what.stamp)
      bad.insert_or_assign(what.item, Bad{what, exit});
  }
  guard(node, what.stamp, [&] { events_.quarantined(what); });
  return true;
}

// What was bad in the epochs that are over; the samples of the others come again.
void Scheduler::take_over_quarantined() {
  for (const Quarantined& q : options_.quarantined) {
    const std::size_t stream = q.stamp.stream;
    if (stream >= first_epoch_.size() || q.stamp.epoch >= first_epoch_[stream]) continue;
    for (std::size_t i = 0; i < plan_.nodes.size(); ++i)
      if (plan_.nodes[i].path() == q.node) bad_[i].emplace(q.item, Bad{q, Exit::data, true});
  }
}

std::vector<Quarantined> Scheduler::quarantined() const {
  std::lock_guard lock(mutex_);
  std::vector<Quarantined> all;
  for (const auto& of_node : bad_)
    for (const auto& [item, bad] : of_node) all.push_back(bad.what);
  return all;
}

std::vector<Scheduler::BadCount> Scheduler::bad_counts(int stream, std::uint32_t epoch) const {
  std::lock_guard lock(mutex_);
  std::vector<BadCount> all;
  for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
    const PlanNode& n = plan_.nodes[i];
    if (n.stream != stream || n.graph->on_error != OnError::quarantine) continue;
    BadCount count{.node = static_cast<int>(i)};
    count.budget = static_cast<std::int64_t>(budget_of(*n.graph, plan_.graph->run));
    for (const auto& [item, bad] : bad_[i])
      if (bad.what.stamp.epoch <= epoch) ++(bad.before ? count.before : count.here);
    all.push_back(count);
  }
  return all;
}

// At an epoch's end. The work of a run's nodes goes on in bodies of its last, so their budgets wait
// for that one's end.
void Scheduler::judge(const PlanNode& ended, std::uint32_t epoch) {
  const int last = index(ended);
  if (ended.run < 0) return judge(last, epoch);
  const auto& run = plan_.runs[static_cast<std::size_t>(ended.run)].nodes;
  if (last == run.back())
    for (const int node : run) judge(node, epoch);
}

void Scheduler::judge(int node, std::uint32_t epoch) {
  const GraphNode& g = *plan_.nodes[static_cast<std::size_t>(node)].graph;
  const std::size_t budget = budget_of(g, plan_.graph->run);
  std::vector<Bad> bad;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [item, b] : bad_[static_cast<std::size_t>(node)])
      if (b.what.stamp.epoch <= epoch) bad.push_back(b);
  }
  if (bad.size() <= budget) return;
  std::sort(bad.begin(), bad.end(),
            [](const Bad& a, const Bad& b) { return a.what.stamp < b.what.stamp; });
  const Bad& b = bad[budget];
  fail({b.exit, b.what.message + " (more than the " + std::to_string(budget) + " allowed)",
        b.what.node, b.what.sample, b.what.stamp, g.place});
}

// Runs a caller's hook; what it throws ends the run instead of the process.
void Scheduler::guard(int node, const Stamp& stamp, const std::function<void()>& call) {
  const GraphNode& g = *plan_.nodes[static_cast<std::size_t>(node)].graph;
  try {
    call();
  } catch (...) {
    const Cause why = cause(Exit::io);
    fail({why.exit, why.text, g.path, "", stamp, g.place});
  }
}

std::string Failure::str() const {
  if (node.empty()) return message;
  std::string s = place.str();
  if (!s.empty()) s += ": ";
  s += "nodes." + node;
  if (!sample.empty()) s += ", sample " + sample;
  return s + " (" + stamp.str() + "): " + message;
}

// ---- what became of it --------------------------------------------------------------------

const Ledger& Scheduler::ledger(int node) const {
  return stations_[static_cast<std::size_t>(node)]->ledger;
}
const Counters& Scheduler::counters(int node) const {
  return stations_[static_cast<std::size_t>(node)]->counters;
}
std::vector<Reading> Scheduler::readings() const {
  {
    std::lock_guard lock(mutex_);
    if (!last_.empty()) return last_;
  }
  const std::int64_t now = end_ns_ ? end_ns_.load() : now_ns();
  std::vector<Reading> all;
  for (const auto& s : stations_) all.push_back(s->read(now));
  return all;
}
std::optional<Turn> Scheduler::turn() const {
  if (!turnstile_) return std::nullopt;
  const std::size_t at = turnstile_->position();
  if (at >= turnstile_->sequence().size()) return std::nullopt;
  return turnstile_->sequence()[at];
}
int Scheduler::credits_out(int node) const {
  const auto& pool = stations_[static_cast<std::size_t>(node)]->pool;
  return pool ? pool->out() : 0;
}

}  // namespace sluice
