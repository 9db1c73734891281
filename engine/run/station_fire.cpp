// Bodies: running a node's process() or flush() on its lane and turning what it emitted into
// packets. station.cpp decides when.
#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "engine/base/borrowed_time.h"
#include "engine/run/at_work.h"
#include "engine/run/held_credit.h"
#include "engine/run/station_times.h"

namespace sluice {

thread_local std::shared_ptr<const void> held_credit;

// ---- on a data thread ---------------------------------------------------------------------------

namespace {

// The first firing that follows from the one under way: this thread goes on with it while what it
// works on is still in its cache. All others become tasks, for any thread.
struct Following {
  bool taken = false;  // a data thread is at work here, so it may be used
  Station* station = nullptr;
  Job* job = nullptr;
};
thread_local Following following;

}  // namespace

void Station::run_on(Job* job) noexcept {
  const Following outer = std::exchange(following, {true, nullptr, nullptr});
  run(job);
  while (following.job) {
    const Following next = std::exchange(following, {true, nullptr, nullptr});
    next.station->run(next.job);
  }
  following = outer;
}

// A gate of the compute arena comes before all other work: a buffer that can be filled.
void Station::start(Job* job) {
  if (urgent()) ++scheduler_.urgent_;
  const bool waits = scheduler_.urgent_.load(std::memory_order_relaxed) > 0 && !urgent();
  if (on_compute_ && following.taken && !following.job && !waits)
    following = {true, this, job};
  else
    work_->try_put(job);
}

// ---- what is used again and again ---------------------------------------------------------------

// A thread's own, so that taking and putting back need no lock.
struct Station::Spare {
  std::vector<Job*> jobs;
  std::vector<Actions> lists;
  ~Spare() {
    for (Job* job : jobs) delete job;
  }
};
static thread_local Station::Spare spare;
static thread_local std::int64_t the_moment = 0;  // 0: not read since the last body

Station::Actions Station::fresh() {
  Actions list;
  if (!spare.lists.empty()) {
    list = std::move(spare.lists.back());
    spare.lists.pop_back();
  }
  return list;
}

Job* Job::make(Kind kind, const Stamp& stamp, std::size_t inputs) {
  Job* job = nullptr;
  if (spare.jobs.empty()) {
    job = new Job;
  } else {
    job = spare.jobs.back();
    spare.jobs.pop_back();
  }
  job->kind = kind;
  job->stamp = stamp;
  job->inputs.resize(inputs);
  return job;
}

void Job::let_go() {
  firing.clear();  // samples first: what holds one has a credit
  hits.reset();
  for (auto& input : inputs) input.clear();
  kept.clear();
  entry.reset();
  mark.reset();
  list.reset();
  credit.reset();
  asked = looks = false;
}

void Job::recycle(Job* job) {
  job->let_go();
  if (spare.jobs.size() < 64)
    spare.jobs.push_back(job);
  else
    delete job;
}

std::int64_t Station::moment() {
  if (the_moment == 0) the_moment = now_ns();
  return the_moment;
}

void Station::run(Job* job) noexcept {
  Actions actions = fresh();
  bool parked = false;  // then another thread may have it already
  if (urgent()) --scheduler_.urgent_;
  if (scheduler_.halted()) {
    std::lock_guard lock(*mutex_);
    finish(*job);
  } else if (job->kind == Job::Kind::flush) {
    run_flush(*job, actions);
  } else {
    parked = fire(*job, actions);
  }
  if (!parked) job->mark ? retire(job) : Job::recycle(job);  // credits go home outside the lock
  perform(std::move(actions));
}

// The body has run; a list that it left is not over.
void Station::finish(const Job& job) {
  --(job.looks ? looking_ : running_);
  ++scheduler_.progress_;
  if (job.mark)
    ++retiring_;
  else if (!job.firing.has_rest())
    over(job);
}

// And so has what it queued on a device.
void Station::over(const Job& job) {
  if (job.kind == Job::Kind::flush)
    flushing_ = false;
  else if (!plan_.is_source())
    --epoch(job.stamp.epoch).flying;
}

// Runs `body`; false, and why, where it threw.
template <class Body>
static bool guarded(Body&& body, Cause& why) {
  try {
    body();
    return true;
  } catch (...) {
    why = cause(Exit::data);
    return false;
  }
}

void Station::run_flush(Job& job, Actions& actions) {
  Flush flush;
  flush.epoch = scheduler_.train_epoch(plan_.stream, job.stamp.epoch);
  Cause why;
  const std::int64_t start = job.began = now_ns();
  counters.enter(start);
  const bool ok = guarded(
      [&] {
        NvtxRange range(nvtx_);
        const AtWork body(plan_, nullptr, start);
        node_->flush(flush);
      },
      why);
  counters.leave(the_moment = now_ns());
  if (!ok) scheduler_.fail({why.exit, why.text, plan_.path(), "", job.stamp, plan_.graph->place});
  for (const auto& [name, value] : flush.metrics)
    scheduler_.guard(index_, job.stamp,
                     [&] { scheduler_.events_.metric(index_, flush.epoch, name, value); });
  if (stream_) hold(job);
  std::lock_guard lock(*mutex_);
  epoch(job.stamp.epoch).flushed = true;
  finish(job);
  pump(actions);
}

// The samples of a job's packets, by in-port.
static void fill(std::vector<std::vector<SamplePtr>>& ports, const PlanNode& plan, Job& job) {
  ports.resize(plan.spec->ins.size());
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    auto& port = ports[static_cast<std::size_t>(plan.inputs[i].port)];
    for (Packet& p : job.inputs[i]) port.push_back(std::move(p.sample));
  }
  std::int64_t weight = 0;
  if (!job.inputs.empty())
    for (const Packet& p : job.inputs.front()) weight += p.weight;
  job.firing.weigh(weight);
  if (plan.spec->arity == Arity::gather) return;
  for (auto& port : ports)
    if (port.empty()) port.push_back(nullptr);  // an optional port that nothing is connected to
}

static const Sample* first_of(const PlanNode& plan, const Firing& firing) {
  if (plan.is_source()) return nullptr;
  return firing.members(plan.inputs.front().port).front().get();
}

// One of the node's longest firings so far: what it was about. A source is about what it sent.
void Station::note_slow(Firing& firing, std::int64_t ns) {
  const Sample* first = first_of(plan_, firing);
  if (plan_.is_source() && !firing.outs().empty()) first = firing.outs().front().sample.get();
  const std::string names =
      plan_.is_source() && first ? sample_name(*first) : names_of(plan_, firing);
  counters.slowest.add({ns, firing.stamp(), names, first ? sample_file(*first) : ""});
}

// For the trace: the body, which members it gathered, and what a source called its sample, where
// this process goes on with it.
void Station::trace(Firing& firing, std::int64_t start, std::int64_t end) {
  const Stamp& stamp = firing.stamp();
  if (plan_.is_source() && !firing.outs().empty() && firing.outs().front().sample && is_mine(stamp))
    scheduler_.rings_.name(index_, stamp, sample_name(*firing.outs().front().sample));
  scheduler_.rings_.record(event_of(stamp, index_, start, end));
}

void Station::trace_link(const Stamp& stamp, const Stamp& from) {
  Event e;
  e.kind = Event::Kind::link;
  e.start = now_ns();
  e.node = index_;
  e.epoch = stamp.epoch;
  e.index = stamp.index;
  e.from_epoch = from.epoch;
  e.from_index = from.index;
  scheduler_.rings_.record(e);
}

static std::int64_t thread_cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

// The body itself, timed. False, and why, where it threw.
bool Station::body(Firing& firing, std::int64_t start, Cause& why) {
  const bool clocked = counters.is_long.load(std::memory_order_relaxed);
  const std::int64_t cpu = clocked ? thread_cpu_ns() : 0;
  counters.enter(start);
  StationTimes times(scheduler_, *this, firing);
  BodyTimes* const outer = std::exchange(the_body, &times);
  blamed = {};
  const bool ok = guarded(
      [&] {
        NvtxRange range(nvtx_);
        const AtWork body(plan_, &firing, start);
        if (!firing.has_rest()) node_->process(firing);
        // On a device's lane all at once: what a piece is made from may be let go of behind it.
        if (stream_)
          firing.emit_rest();
        else
          firing.emit_some(static_cast<std::size_t>(scheduler_.options_.ahead));
      },
      why);
  the_body = outer;
  const std::int64_t end = the_moment = now_ns();
  counters.leave(end);
  if (clocked) {
    counters.cpu_ns.fetch_add(thread_cpu_ns() - cpu, std::memory_order_relaxed);
    counters.cpu_of_ns.fetch_add(end - start, std::memory_order_relaxed);
  }
  note_body(firing, times, start, end);
  return ok;
}

// How long a firing took; how many took about as long.
std::uint32_t Station::note_time(Firing& firing, std::int64_t ns) {
  const std::uint32_t like_it = counters.durations.add(ns);
  if (counters.slowest.admits(ns)) note_slow(firing, ns);
  return like_it;
}

// On a device's lane the body's own time is that of queueing.
void Station::note_body(Firing& firing, const StationTimes& times, std::int64_t start,
                        std::int64_t end) {
  const std::int64_t ns = end - start;
  std::uint32_t like_it = 1;
  if (!stream_ && plan_.leaves == Leaves::always)
    like_it = counters.left.fetch_add(1, std::memory_order_relaxed) + 1;
  else if (!stream_)
    like_it = note_time(firing, ns - std::min(ns, times.lent()));
  if (!stream_ && times.position() >= 0) note_run(firing, times);
  const bool is_long = ns > Counters::long_ns;
  if (is_long != counters.is_long.load(std::memory_order_relaxed))
    counters.is_long.store(is_long, std::memory_order_relaxed);
  if (is_long || like_it % 64 == 1) {
    std::uint64_t bytes = 0;
    for (const Firing::Out& o : firing.outs())
      if (o.sample) bytes += sample_bytes(*o.sample);
    if (!firing.spared()) counters.emitted(bytes);
  }
  if (firing.spared()) counters.spared.fetch_add(1, std::memory_order_relaxed);
  if (scheduler_.rings_.on()) trace(firing, start, end);
  if (!stream_) tell_logs(firing);
}

// What this body took for other nodes of its run, as firings of theirs.
void Station::note_run(Firing& firing, const StationTimes& times) {
  const bool last = plan_.leaves != Leaves::always;
  const auto members = plan_.spec->arity == Arity::gather
                           ? std::max<std::int64_t>(1, std::ssize(firing.members()))
                           : 1;
  for (int k = 0; times.node_at(k) >= 0; ++k) {
    if (k == times.position() || (times.of(k) == 0 && !last)) continue;
    Station& owner = *scheduler_.stations_[static_cast<std::size_t>(times.node_at(k))];
    if (owner.plan_.leaves != Leaves::always) continue;
    const std::int64_t each = times.of(k) / members;
    for (std::int64_t i = 0; i < members; ++i) owner.counters.durations.add(each);
    if (owner.counters.slowest.admits(each)) owner.note_slow(firing, each);
  }
}

void Station::tell_logs(Firing& firing) {
  for (const auto& [name, value] : firing.logs())
    scheduler_.guard(index_, firing.stamp(),
                     [&] { scheduler_.events_.log(index_, firing.stamp(), name, value); });
}

// What the body logs once the device is done.
void Station::read_later(Job& job) {
  Firing& firing = job.firing;
  for (const auto& look : firing.later()) {
    Cause why;
    if (!guarded(look, why))
      return scheduler_.fail({why.exit, why.text, plan_.path(), names_of(plan_, firing), job.stamp,
                              plan_.graph->place});
  }
  tell_logs(firing);
}

// The node whose work failed: of a pass that did the work of several, the one that it is booked to,
// and `why` names the others.
const PlanNode& Station::to_blame(std::string& why) const {
  if (blamed.none() || plan_.run < 0) return plan_;
  const auto& run = scheduler_.plan_.runs[static_cast<std::size_t>(plan_.run)].nodes;
  const auto node = [&](int k) -> const PlanNode& {
    return scheduler_.plan_.nodes[static_cast<std::size_t>(run[static_cast<std::size_t>(k)])];
  };
  std::string others;
  for (int k = 0; k < Owners::most && k < std::ssize(run); ++k)
    if (k != blamed.first && (blamed.all >> k & 1))
      others += (others.empty() ? "" : " + ") + node(k).path();
  if (!others.empty()) why += " (in one pass with " + others + ")";
  return node(blamed.first);
}

// Which of the data a firing is about: the item, and its child where a node made several. Batches
// have other members in every epoch, and a source that failed has not said it: each is one of its
// own.
std::string Station::item_of(const Job& job) const {
  if (job.inputs.empty() || job.inputs.front().size() != 1) return job.stamp.str();
  const Packet& packet = job.inputs.front().front();
  if (packet.weight != 1 || packet.item == Packet::no_item) return job.stamp.str();
  std::string text = std::to_string(packet.item);
  for (int d = 0; d < packet.stamp.depth; ++d) text += '.' + std::to_string(packet.stamp.path[d]);
  return text;
}

// Quarantined, or the run has failed.
const std::string* Station::failed_body(const Job& job, Cause why) {
  const Firing& firing = job.firing;
  const std::string names = names_of(plan_, firing);
  const Stamp& stamp = firing.stamp();
  const PlanNode& who = to_blame(why.text);
  // An updater's NaN may have reached the weights; a reader's is the sample's own.
  const bool not_finite = why.exit == Exit::non_finite && plan_.spec->access != Access::update;
  if (plan_.graph->on_error == OnError::quarantine && (why.is_of_sample() || not_finite) &&
      scheduler_.quarantine({who.path(), names, why.text, stamp, item_of(job)}, why.exit,
                            scheduler_.index(who)))
    return reasons::quarantined;
  scheduler_.fail({why.exit, why.text, who.path(), names, stamp, who.graph->place});
  return nullptr;
}

// Why the firing as a whole becomes a Skip; null where it emitted something, or had nowhere to.
const std::string* Station::verdict(const Firing& firing, bool emitted) const {
  if (aborting()) return reasons::discarded;  // its body may have returned early
  if (emitted) return nullptr;
  if (plan_.is_source() && scheduler_.cutting()) return reasons::discarded;
  if (!firing.skip_reason().empty()) return intern_reason(firing.skip_reason());
  return plan_.spec->outs.empty() ? nullptr : reasons::filtered;
}

// The body and what follows from it outside the lock: stores may read and write files, so look-ups
// and entries are made here. Returns why it is a Skip; null where it is none.
const std::string* Station::attempt(Job& job, std::int64_t start) {
  Firing& firing = job.firing;
  Cause why;
  const bool ok = (aborting() && !plan_.is_source()) || body(firing, start, why);
  if (stream_) keep_made(firing);
  auto& outs = firing.outs();
  const auto first =
      std::find_if(outs.begin(), outs.end(), [](const Firing::Out& o) { return !!o.sample; });
  // Of a list all may be left out, and not only of this piece.
  const bool emitted =
      first != outs.end() || firing.has_rest() || (job.list && job.list->holds_samples);
  const std::string* skip = ok ? verdict(firing, emitted) : failed_body(job, why);
  if (ok && !skip && plan_.is_source() && first != outs.end() && !is_mine(job.stamp))
    skip = reasons::elsewhere;
  if (ok && !job.inputs.empty() && !job.inputs.front().empty() &&
      is_hole(job.inputs.front().front()))
    skip = job.inputs.front().front().reason;
  if (store_ && ok && skip != reasons::discarded) {
    job.entry = skip ? CacheStore::Entry{nullptr, *skip} : CacheStore::Entry{first->sample, ""};
    if (!stream_) remember(job);
  }
  if (skip) outs.clear();
  if (plan_.is_source() && !outs.empty() && !job.asked) look_up(job);
  return skip;
}

// What a cache has of a source's item, where nobody else would read the source's own sample.
SamplePtr Station::kept(Job& job, std::uint64_t item) {
  job.hits = scheduler_.look_up(plan_.stream, item);
  job.asked = true;
  if (!job.hits) return nullptr;
  for (const Hit& hit : *job.hits)
    if (std::find(plan_.spared_by.begin(), plan_.spared_by.end(), hit.cache) !=
        plan_.spared_by.end())
      return hit.entry.sample;
  return nullptr;
}

// Asks the caches for a source's item. Where that reads files, the source goes on with its next
// item meanwhile: items may overtake each other from here on, as they may anywhere in the graph.
void Station::look_up(Job& job) {
  if (reads_) {
    Actions next = fresh();
    {
      std::lock_guard lock(*mutex_);
      job.looks = true;
      ++looking_;
      ++ordinal_;
      --running_;
      pump(next);
    }
    const Following outer = std::exchange(following, {});  // for another thread
    perform(std::move(next));
    following = outer;
  }
  scheduler_.guard(index_, job.stamp, [&] {
    job.hits = scheduler_.look_up(plan_.stream, job.firing.outs().front().item);
  });
}

bool Station::fire(Job& job, Actions& actions) {
  if (plan_.gate)
    for (auto& input : job.inputs)
      for (Packet& p : input) p.untaken.reset();
  if (!job.list) job.firing.begin(job.stamp, key_, stopped_);
  job.firing.on(stream_);
  if (pool && plan_.spec->outs.empty()) held_credit = scheduler_.held(job.credit);
  if (stream_) await_inputs(job);
  if (!job.list) fill(job.firing.inputs(), plan_, job);
  std::function<SamplePtr(std::uint64_t)> ask;
  if (!plan_.spared_by.empty() && !reads_) {
    ask = [this, &job](std::uint64_t item) { return kept(job, item); };
    job.firing.ask(&ask);
  }
  if (plan_.spec->arity == Arity::gather && scheduler_.rings_.on())
    for (const Packet& member : job.inputs.front()) trace_link(job.stamp, member.stamp);
  // A trace wants what caused what in order, also across threads.
  job.began = scheduler_.rings_.on() ? now_ns() : moment();
  const std::string* skip = attempt(job, job.began);
  held_credit.reset();
  Station* at = this;
  for (; !skip && at->goes_on(job); at = at->chained_) {
    at->hand_over(job);
    skip = at->chained_->attempt(job, the_moment);
  }
  if (stream_) hold(job);
  if (skip || scheduler_.failed()) job.firing.drop_rest();  // samples may be let go of here

  std::lock_guard lock(*mutex_);
  for (Station* s = this; s != at; s = s->chained_) s->count_chained(job);
  finish(job);
  if (!scheduler_.failed()) {
    if (plan_.is_source())
      emit_source(job, skip, actions);
    else
      at->emit(job, skip, actions);
  }
  const bool unfinished = job.firing.has_rest();
  if (unfinished) parked_.push_back(&job);
  pump(actions);
  return unfinished;
}

// ---- chains -------------------------------------------------------------------------------------

// Whether it may stand in a chain: a firing needs nothing but its input, and a packet that leaves
// it is the same packet with another sample.
bool Station::chains() const {
  return plan_.spec->arity == Arity::one_to_one && on_compute_ && limit() == 0 && !sequenced_ &&
         !store_ && !pool && plan_.outs.size() == 1;
}

// Whether what it just emitted is worked on at once by the next of the chain. Not where a gate
// waits for a thread: a buffer that can be filled comes first.
bool Station::goes_on(Job& job) const {
  const auto& outs = job.firing.outs();
  return chained_ && outs.size() == 1 && outs.front().port == 0 && !chained_->cutting() &&
         !scheduler_.halted() && scheduler_.urgent_.load(std::memory_order_relaxed) == 0;
}

// The job becomes one of the next station; what came in is let go of.
void Station::hand_over(Job& job) {
  if (!in_chain_) {  // else its only packet is already what the chain carries
    Packet packet = carried(job);
    job.inputs.resize(1);
    job.inputs.front().clear();
    job.inputs.front().push_back(std::move(packet));
  }
  job.firing.pass_on(chained_->plan_.spec->ins.size(), chained_->plan_.inputs.front().port);
  job.firing.begin(job.stamp, chained_->key_, chained_->stopped_);
}

// Under the chain's lock: the packet was fired on here and came to the next station.
void Station::count_chained(const Job& job) {
  ++ledger.fired;
  ++ledger.out;
  ++epoch(job.stamp.epoch).sent.front();
  Epoch& next = chained_->epoch(job.stamp.epoch);
  ++chained_->ledger.in;
  ++next.in;
  ++next.consumed;
  ++next.fired;
  next.trained = next.consumed;
}

// ---- what was emitted ---------------------------------------------------------------------------

void Station::remember(Job& job) {
  remember(job.inputs.front().front().item, std::move(*job.entry), job.stamp);
  job.entry.reset();
}

void Station::remember(std::uint64_t item, CacheStore::Entry entry, const Stamp& stamp) {
  scheduler_.guard(index_, stamp, [&] { store_->put(item, std::move(entry)); });
}

void Station::emit_source(Job& job, const std::string* skip, Actions& actions) {
  Firing& firing = job.firing;
  if (firing.epoch_ended()) {
    if (ordinal_ == 0)
      scheduler_.fail(
          {Exit::data, "the data list is empty", plan_.path(), "", job.stamp, plan_.graph->place});
    return end_source_epoch(false, actions);
  }
  Packet base;
  base.stamp = job.stamp;
  base.credit = std::move(job.credit);
  if (job.mark) job.credit = until_done(base.credit, stream_);
  base.ready = job.mark;
  base.hits = std::move(job.hits);
  base.item = firing.outs().empty() ? Packet::no_item : firing.outs().front().item;
  if (skip) {
    if (skip == reasons::discarded) epoch(job.stamp.epoch).cut = true;
    if (skip != reasons::elsewhere) ledger.lost[*skip] += 1;
    ++ledger.skipped[*skip];
  } else {
    ++ledger.fired;
    if (plan_.is_sink()) ++ledger.delivered;
  }
  emit_ports(firing.outs(), std::move(base), skip ? skip : reasons::filtered, actions, {0, true});
  ledger.emitted += skip != reasons::elsewhere;  // counted where it is computed
  if (!job.looks) ++ordinal_;
}

// What every packet of a firing carries.
Packet Station::carried(Job& job) const {
  Packet base;
  base.stamp = job.stamp;
  base.weight = 0;
  for (const Packet& p : job.inputs.front()) base.weight += p.weight;
  base.item = job.inputs.front().front().item;
  for (auto& port : job.inputs)
    for (Packet& p : port) {
      if (!base.hits && plan_.feeds_cache) base.hits = std::move(p.hits);
      if (p.untaken) base.untaken = join(base.untaken, p.untaken);
      if (!plan_.gate)
        base.credit = base.credit ? join(base.credit, p.credit) : std::move(p.credit);
    }
  if (plan_.gate) base.credit = std::move(job.credit);
  if (job.mark) {
    base.ready = job.mark;
    job.credit = until_done(base.credit, stream_);
  }
  return base;
}

void Station::emit(Job& job, const std::string* skip, Actions& actions) {
  auto& outs = job.firing.outs();
  const bool last = !job.firing.has_rest();
  if (!last && !job.list) {
    job.list = std::make_unique<Job::List>(carried(job),
                                           std::make_shared<CreditPool>(2, [this] { kick(); }));
    job.list->piece = job.list->window->try_take();
  }
  Packet base = job.list ? Packet(job.list->packet) : carried(job);
  Children children{0, last};
  if (job.list) {
    base.untaken = join(base.untaken, std::exchange(job.list->piece, nullptr));
    children.first = job.list->sent;
    job.list->sent += static_cast<std::uint32_t>(outs.size());
    job.list->holds_samples |=
        std::any_of(outs.begin(), outs.end(), [](const Firing::Out& o) { return !!o.sample; });
  }
  if (skip == reasons::discarded) epoch(job.stamp.epoch).cut = true;
  if (skip) {
    if (!is_hole(job.inputs.front().front())) ledger.lost[*skip] += base.weight;
    if (plan_.spec->arity != Arity::gather) ++ledger.skipped[*skip];  // else: of other packets
  } else if (last) {
    ++ledger.fired;
    if (plan_.is_sink()) ledger.delivered += base.weight;
  }
  const std::string& said = job.firing.skip_reason();
  if (!skip) skip = said.empty() ? reasons::filtered : intern_reason(said);
  emit_ports(outs, std::move(base), skip, actions, children);
  if (last) return;
  outs.clear();
  job.firing.logs().clear();  // told
}

// How many samples the i-th member of a batch stands for: one, where it was batched from as many.
static std::uint32_t weight_of_member(std::uint32_t batch, std::size_t members, std::size_t i) {
  const auto n = static_cast<std::uint32_t>(members);
  return std::max<std::uint32_t>(1, batch / n + (i < batch % n));
}

// Sends what was emitted on each port; a port with nothing gets a Skip, so that every edge
// carries every stamp.
void Station::emit_ports(std::vector<Firing::Out>& outs, Packet base, const std::string* reason,
                         Actions& actions, const Children& children) {
  const int ports = static_cast<int>(plan_.outs.size());
  const bool expands = plan_.spec->arity == Arity::expand;
  const std::uint32_t weight = base.weight;
  std::size_t most = 1;
  const char* wrong = nullptr;
  std::vector<std::size_t> on_port(outs.size() > 1 ? plan_.outs.size() : 0);
  for (const auto& o : outs) {
    if (o.port < 0 || o.port >= ports) {
      wrong = "emitted on a port that it does not have";
      break;
    }
    if (outs.size() > 1) most = std::max(most, ++on_port[static_cast<std::size_t>(o.port)]);
  }
  if (most > 1 && !expands) wrong = "emitted more than one sample on a port of a 1:1 node";
  if (wrong) {
    scheduler_.fail({Exit::usage, wrong, plan_.path(), "", base.stamp, plan_.graph->place});
  } else {
    for (int port = 0; port < ports; ++port) {
      auto next = outs.begin();
      for (std::size_t i = 0; i < most; ++i) {
        const bool last = port + 1 == ports && i + 1 == most;
        Packet p = last ? std::move(base) : base;
        if (expands)
          p.stamp = p.stamp.child(children.first + static_cast<std::uint32_t>(i),
                                  children.last && i + 1 == most);
        if (decollates_ && most > 1) {
          p.weight = weight_of_member(weight, most, i);
          p.item = Packet::no_item;  // which of the batch's items it is of, nobody knows
        }
        next = std::find_if(next, outs.end(), [&](const auto& o) { return o.port == port; });
        if (next != outs.end()) p.sample = std::move(next++->sample);
        if (!p.sample) {
          p.kind = Packet::Kind::skip;
          p.reason = reason;
          p.ready.reset();
        }
        send(port, std::move(p), actions);
      }
    }
  }
  if (base.credit || base.untaken || base.hits)  // not moved from: dropped outside the lock
    actions.push_back({Action::Kind::drop, this, 0, std::move(base)});
}

// ---- carrying out -------------------------------------------------------------------------------

// Carries out what stations decided, in order, on this thread, and what follows from it. A loop
// instead of recursion: a packet that is dropped may wake a gate that forwards packets that ...
void Station::perform(Actions actions) {
  thread_local Actions waiting;
  thread_local bool working = false;
  if (working) {
    std::move(actions.begin(), actions.end(), std::back_inserter(waiting));
  } else {
    working = true;
    for (Action& a : actions) act(a);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      Action a = std::move(waiting[i]);  // acting may lengthen the list
      act(a);
    }
    waiting.clear();
    working = false;
    if (!following.job) the_moment = 0;  // else the next body begins where the last one ended
  }
  actions.clear();
  if (spare.lists.size() < 16) spare.lists.push_back(std::move(actions));
}

void Station::act(Action& a) {
  switch (a.kind) {
    case Action::Kind::send:
      if (!a.station->plan_.outs[static_cast<std::size_t>(a.port)].empty())
        a.station->outs_[static_cast<std::size_t>(a.port)]->try_put(a.packet);
      break;
    case Action::Kind::launch:
      a.station->start(a.job);
      break;
    case Action::Kind::turn:
      a.station->scheduler_.turn_closed(*a.station, a.packet.stamp.epoch, a.packet.cut);
      break;
    case Action::Kind::pause:
      a.station->scheduler_.paused(*a.station, a.packet.stamp, a.packet.count);
      the_moment = 0;  // that may have written files
      break;
    case Action::Kind::remember:
      a.station->remember(a.packet.item, {nullptr, *a.packet.reason}, a.packet.stamp);
      the_moment = 0;  // that may have written a file
      break;
    case Action::Kind::drop:
      break;
  }
  a.packet.sample.reset();  // in this order: the credit goes home last
  a.packet.hits.reset();
  a.packet.untaken.reset();
  a.packet.credit.reset();
}

}  // namespace sluice
