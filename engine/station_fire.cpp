// Bodies: running a node's process() or flush() on its lane and turning what it emitted into
// packets. station.cpp decides when.
#include <algorithm>
#include <cstring>
#include <new>

#include "engine/error.h"
#include "engine/station.h"

namespace sluice {

void Station::run(Job* raw) noexcept {
  std::unique_ptr<Job> job(raw);
  Actions actions;
  if (scheduler_.halted()) {
    std::lock_guard lock(mutex_);
    finish(*job);
  } else if (job->kind == Job::Kind::flush) {
    run_flush(*job, actions);
  } else {
    fire(*job, actions);
  }
  job.reset();  // the inputs and their credits go home, outside the lock
  perform(std::move(actions));
}

void Station::finish(const Job& job) {
  --running_;
  if (job.kind == Job::Kind::flush)
    flushing_ = false;
  else if (!plan_.is_source())
    --epoch(job.stamp.epoch).flying;
  ++scheduler_.progress_;
}

// LibTorch appends its C++ stack; the first line says what happened.
static std::string first_line(const char* what) {
  for (const char* stack : {"\nException raised from", "\nframe #"})
    if (const char* end = std::strstr(what, stack)) return std::string(what, end);
  return what;
}

// Runs `body`; false, and why, where it threw.
template <class Body>
static bool guarded(Body&& body, std::string& why, Exit& exit) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    why = e.what();
    exit = e.exit;
  } catch (const std::bad_alloc&) {
    why = "out of memory";
    exit = Exit::memory;
  } catch (const std::exception& e) {
    why = first_line(e.what());
    exit = Exit::data;
    if (why.find("out of memory") != std::string::npos) exit = Exit::memory;
  } catch (...) {
    why = "unknown exception";
    exit = Exit::data;
  }
  return false;
}

void Station::run_flush(Job& job, Actions& actions) {
  Flush flush;
  flush.epoch = scheduler_.train_epoch(plan_.stream, job.stamp.epoch);
  std::string why;
  Exit exit = Exit::done;
  const std::int64_t start = now_ns();
  counters.enter(start);
  const bool ok = guarded(
      [&] {
        NvtxRange range(nvtx_);
        node_->flush(flush);
      },
      why, exit);
  counters.leave(start, now_ns());
  if (!ok) scheduler_.fail({exit, why, plan_.path(), "", job.stamp, plan_.graph->place});
  for (const auto& [name, value] : flush.metrics)
    scheduler_.guard(index_, job.stamp,
                     [&] { scheduler_.events_.metric(index_, flush.epoch, name, value); });
  std::lock_guard lock(mutex_);
  epoch(job.stamp.epoch).flushed = true;
  finish(job);
  pump(actions);
}

static std::vector<std::vector<SamplePtr>> samples_of(const PlanNode& plan, const Job& job) {
  std::vector<std::vector<SamplePtr>> all(plan.spec->ins.size());
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    auto& port = all[static_cast<std::size_t>(plan.inputs[i].port)];
    port.reserve(job.inputs[i].size());
    for (const Packet& p : job.inputs[i]) port.push_back(p.sample);
  }
  if (plan.spec->arity != Arity::gather)
    for (auto& port : all)
      if (port.empty()) port.push_back(nullptr);  // an optional port that nothing is connected to
  return all;
}

static std::string names_of(const Job& job) {
  std::string names;
  if (!job.inputs.empty())
    for (const Packet& p : job.inputs.front())
      if (p.sample) names += (names.empty() ? "" : ", ") + sample_name(*p.sample);
  return names;
}

// One of the node's longest firings so far: what it was about. A source is about what it sent.
void Station::note_slow(const Job& job, Firing& firing, std::int64_t ns) {
  const Sample* first = nullptr;
  if (!job.inputs.empty()) first = job.inputs.front().front().sample.get();
  if (plan_.is_source() && !firing.outs().empty()) first = firing.outs().front().sample.get();
  const std::string names = plan_.is_source() && first ? sample_name(*first) : names_of(job);
  counters.slowest.add({ns, firing.stamp(), names, first ? sample_file(*first) : ""});
}

// For the trace: the body, which members it gathered, and what a source called its sample.
void Station::trace(Firing& firing, std::int64_t start, std::int64_t end) {
  const Stamp& stamp = firing.stamp();
  if (plan_.is_source() && !firing.outs().empty() && firing.outs().front().sample)
    scheduler_.rings_.name(index_, stamp, sample_name(*firing.outs().front().sample));
  Event e;
  e.start = start;
  e.end = end;
  e.node = index_;
  e.epoch = stamp.epoch;
  e.index = stamp.index;
  e.child = stamp.depth ? stamp.path[stamp.depth - 1] : 0;
  scheduler_.rings_.record(e);
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

// The body itself, timed. False, and why, where it threw.
bool Station::body(const Job& job, Firing& firing, std::string& why, Exit& exit) {
  const Stamp& stamp = firing.stamp();
  const std::int64_t start = now_ns();
  counters.enter(start);
  const bool ok = guarded(
      [&] {
        NvtxRange range(nvtx_);
        node_->process(firing);
      },
      why, exit);
  const std::int64_t end = now_ns();
  counters.leave(start, end);
  counters.fired.fetch_add(1, std::memory_order_relaxed);
  counters.durations.add(end - start);
  if (counters.slowest.admits(end - start)) note_slow(job, firing, end - start);
  if (scheduler_.rings_.on()) trace(firing, start, end);
  for (const auto& [name, value] : firing.logs())
    scheduler_.guard(index_, stamp, [&] { scheduler_.events_.log(index_, stamp, name, value); });
  return ok;
}

// Quarantined, or the run has failed.
const std::string* Station::failed_body(const Job& job, const std::string& why, Exit exit) {
  const std::string names = names_of(job);
  if (plan_.graph->on_error == OnError::quarantine && (exit == Exit::data || exit == Exit::io) &&
      scheduler_.quarantine({plan_.path(), names, why, job.stamp}, exit, index_))
    return reasons::quarantined;
  scheduler_.fail({exit, why, plan_.path(), names, job.stamp, plan_.graph->place});
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

// Stores may read and write files, so look-ups and entries are made here, outside the lock.
void Station::fire(Job& job, Actions& actions) {
  Firing firing(job.stamp, key_, samples_of(plan_, job), stopped_);
  if (plan_.spec->arity == Arity::gather && scheduler_.rings_.on())
    for (const Packet& member : job.inputs.front()) trace_link(job.stamp, member.stamp);
  std::string why;
  Exit exit = Exit::done;
  const bool ok = (aborting() && !plan_.is_source()) || body(job, firing, why, exit);
  auto& outs = firing.outs();
  const auto first =
      std::find_if(outs.begin(), outs.end(), [](const Firing::Out& o) { return !!o.sample; });
  const SamplePtr sample = first == outs.end() ? nullptr : first->sample;
  const std::string* skip = ok ? verdict(firing, !!sample) : failed_body(job, why, exit);
  if (skip) outs.clear();
  std::shared_ptr<const std::vector<Hit>> hits;
  if (plan_.is_source() && !outs.empty())
    scheduler_.guard(index_, job.stamp,
                     [&] { hits = scheduler_.look_up(plan_.stream, outs.front().item); });
  if (store_ && ok && skip != reasons::discarded)
    remember(job.inputs.front().front().item,
             skip ? CacheStore::Entry{nullptr, *skip} : CacheStore::Entry{sample, ""}, job.stamp);

  std::lock_guard lock(mutex_);
  finish(job);
  if (!scheduler_.failed()) {
    if (plan_.is_source())
      emit_source(firing, job, skip, std::move(hits), actions);
    else
      emit(firing, job, skip, actions);
  }
  pump(actions);
}

void Station::remember(std::uint64_t item, CacheStore::Entry entry, const Stamp& stamp) {
  scheduler_.guard(index_, stamp, [&] { store_->put(item, std::move(entry)); });
}

void Station::emit_source(Firing& firing, Job& job, const std::string* skip,
                          std::shared_ptr<const std::vector<Hit>> hits, Actions& actions) {
  if (firing.epoch_ended()) {
    if (ordinal_ == 0)
      scheduler_.fail(
          {Exit::data, "the data list is empty", plan_.path(), "", job.stamp, plan_.graph->place});
    return end_source_epoch(false, actions);
  }
  Packet base;
  base.stamp = job.stamp;
  base.credit = std::move(job.credit);
  base.hits = std::move(hits);
  base.item = firing.outs().empty() ? Packet::no_item : firing.outs().front().item;
  if (skip) {
    ledger.lost[*skip] += 1;
    ++ledger.skipped[*skip];
  } else {
    ++ledger.fired;
    if (plan_.is_sink()) ++ledger.delivered;
  }
  emit_ports(firing.outs(), base, skip ? skip : reasons::filtered, actions);
  actions.push_back({Action::Kind::drop, this, 0, std::move(base)});
  ++ledger.emitted;
  ++ordinal_;
}

void Station::emit(Firing& firing, Job& job, const std::string* skip, Actions& actions) {
  Packet base;  // what every packet of this firing carries
  base.stamp = job.stamp;
  base.weight = 0;
  for (const Packet& p : job.inputs.front()) base.weight += p.weight;
  base.item = job.inputs.front().front().item;
  for (const auto& port : job.inputs)
    for (const Packet& p : port) {
      if (!base.hits && plan_.feeds_cache) base.hits = p.hits;
      if (!plan_.gate) base.credit = join(base.credit, p.credit);
    }
  if (plan_.gate) base.credit = std::move(job.credit);
  if (skip == reasons::discarded) epoch(job.stamp.epoch).cut = true;
  if (skip) {
    ledger.lost[*skip] += base.weight;
    if (plan_.spec->arity != Arity::gather) ++ledger.skipped[*skip];  // else: of other packets
  } else {
    ++ledger.fired;
    if (plan_.is_sink()) ledger.delivered += base.weight;
  }
  const std::string& said = firing.skip_reason();
  if (!skip) skip = said.empty() ? reasons::filtered : intern_reason(said);
  emit_ports(firing.outs(), base, skip, actions);
  actions.push_back({Action::Kind::drop, this, 0, std::move(base)});
}

// Sends what was emitted on each port; a port with nothing gets a Skip, so that every edge
// carries every stamp.
void Station::emit_ports(std::vector<Firing::Out>& outs, const Packet& base,
                         const std::string* reason, Actions& actions) {
  const int ports = static_cast<int>(plan_.outs.size());
  const bool expands = plan_.spec->arity == Arity::expand;
  std::vector<std::vector<SamplePtr>> by_port(static_cast<std::size_t>(ports));
  std::size_t most = 1;
  const char* wrong = nullptr;
  for (auto& o : outs) {
    if (o.port < 0 || o.port >= ports) {
      wrong = "emitted on a port that it does not have";
      break;
    }
    auto& port = by_port[static_cast<std::size_t>(o.port)];
    port.push_back(std::move(o.sample));
    most = std::max(most, port.size());
  }
  if (most > 1 && !expands) wrong = "emitted more than one sample on a port of a 1:1 node";
  if (wrong) {
    scheduler_.fail({Exit::usage, wrong, plan_.path(), "", base.stamp, plan_.graph->place});
    return;
  }
  for (int port = 0; port < ports; ++port)
    for (std::size_t i = 0; i < most; ++i) {
      Packet p = base;
      auto& samples = by_port[static_cast<std::size_t>(port)];
      if (expands) p.stamp = base.stamp.child(static_cast<std::uint32_t>(i), i + 1 == most);
      if (i < samples.size() && samples[i]) {
        p.sample = std::move(samples[i]);
      } else {
        p.kind = Packet::Kind::skip;
        p.reason = reason;
      }
      send(port, p, actions);
      actions.push_back({Action::Kind::drop, this, 0, std::move(p)});
    }
}

// Carries out what stations decided, in order, on this thread, and what follows from it. A loop
// instead of recursion: a packet that is dropped may wake a gate that forwards packets that ...
void Station::perform(Actions actions) {
  thread_local std::deque<Action> todo;
  thread_local bool working = false;
  for (Action& a : actions) todo.push_back(std::move(a));
  if (working) return;
  working = true;
  while (!todo.empty()) {
    Action a = std::move(todo.front());
    todo.pop_front();
    switch (a.kind) {
      case Action::Kind::send:
        if (!a.station->plan_.outs[static_cast<std::size_t>(a.port)].empty())
          a.station->outs_[static_cast<std::size_t>(a.port)]->try_put(a.packet);
        break;
      case Action::Kind::launch:
        a.station->work_->try_put(a.job);
        break;
      case Action::Kind::turn:
        a.station->scheduler_.turn_closed(*a.station, a.packet.stamp.epoch, a.packet.cut);
        break;
      case Action::Kind::remember:
        a.station->remember(a.packet.item, {nullptr, *a.packet.reason}, a.packet.stamp);
        break;
      case Action::Kind::drop:
        break;
    }
  }
  working = false;
}

}  // namespace sluice
