#include "tests/engine/program_nodes.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "engine/run/held_credit.h"

namespace sluice::sim {

Memory fresh_memory(const Program& program) {
  Memory m;
  m.weights.assign(static_cast<std::size_t>(program.nets), 1);
  m.states.assign(program.nodes.size(), 0);
  for (const Item& n : program.nodes) m.logs[n.path], m.told[n.path];
  return m;
}

Program for_device(Program program) {
  for (Item& n : program.nodes)
    if (n.lane >= 2 && n.kind != Kind::source) {
      n.filter = 0;
      n.bad = n.varies = false;
    }
  return program;
}

// Lets go of what sinks keep of their firings, somewhat later and on a thread of its own.
class Keeper {
 public:
  ~Keeper() {
    over_ = true;
    thread_.join();
  }
  void keep(std::shared_ptr<const void> credit) {
    std::lock_guard lock(mutex_);
    kept_.push_back(std::move(credit));
  }

 private:
  void loop() {
    while (!over_) {
      toy::nap(100);
      std::vector<std::shared_ptr<const void>> kept;
      std::lock_guard lock(mutex_);
      kept.swap(kept_);
    }
  }
  std::mutex mutex_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::atomic<bool> over_{false};
  std::thread thread_{[this] { loop(); }};
};

namespace {

// Takes some entries, and forgets some again: what it has must not matter.
class Store final : public CacheStore {
 public:
  Store(bool files, std::uint64_t salt) : files_(files), salt_(salt) {}
  bool reads() const override { return files_; }
  std::optional<Entry> find(std::uint64_t item) override {
    std::lock_guard lock(mutex_);
    auto it = entries_.find(item);
    if (it == entries_.end()) return std::nullopt;
    Entry entry = it->second;
    if (mix(salt_ ^ ++calls_) % 8 == 0) entries_.erase(it);
    return entry;
  }
  void put(std::uint64_t item, Entry entry) override {
    std::lock_guard lock(mutex_);
    if (mix(salt_ ^ ++calls_) % 4 != 0) entries_[item] = std::move(entry);
  }

 private:
  const bool files_;
  const std::uint64_t salt_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t calls_ = 0;
};

}  // namespace

// A sample as a body gets it: what it is, or where that will be.
struct Trial::Input {
  Value value;
  std::optional<View> view;

  explicit Input(const Sample& s) : value{s.value, s.members} {
    if (s.memory) view = s.memory->view;
  }
  Value get() const {
    if (!view) return value;
    auto words = view->read();
    const std::uint64_t first = words.front();
    words.erase(words.begin());
    return {first, words};
  }
};

struct Trial::Events final : RunEvents {
  Trial& trial;
  explicit Events(Trial& t) : trial(t) {}
  bool between(const Turn& ended, std::size_t position) override {
    trial.memory_.turns.push_back(std::to_string(ended.stream) + "/" + std::to_string(ended.epoch));
    if (trial.scheduler->pausing())
      trial.pauses.push_back({{position, 0}, trial.still(true), true});
    trial.stops(From::turn);
    return static_cast<int>(trial.memory_.turns.size()) == trial.setup_.stop_behind;
  }
  void paused(const Resume& at) override {
    trial.pauses.push_back({at, trial.still(false)});
    trial.stops(From::pause);
  }
  void log(int node, const Stamp& stamp, const std::string&, double value) override {
    const Item& n = trial.p_.nodes[static_cast<std::size_t>(node)];
    trial.memory_.told[n.path].push_back(told_line(stamp.str(), value));
    trial.stops(From::log);
    if (trial.setup_.pauses && n.kind == Kind::updater && stamp.index % 3 == 0)
      trial.scheduler->pause();
  }
  void metric(int node, std::uint32_t epoch, const std::string&, double value) override {
    const std::string& path = trial.p_.nodes[static_cast<std::size_t>(node)].path;
    trial.memory_.told[path].push_back(told_line("flush " + std::to_string(epoch), value));
  }
  void quarantined(const Quarantined& what) override {
    std::lock_guard lock(trial.mutex_);
    trial.bad_[what.node].insert(what.stamp.str());
  }
  void stalled(const std::string& report) override {
    std::fprintf(stderr, "seed %llu hangs:\n%s\n%s", static_cast<unsigned long long>(trial.p_.seed),
                 report.c_str(), describe(trial.p_).c_str());
    std::abort();
  }
};

static bool is_stateful(const Item& n) { return n.ordered || n.kind == Kind::updater; }

static Spec spec_of(const Item& n) {
  using toy::P;
  Spec s(n.path, "");
  for (std::size_t i = 0; i < n.from.size(); ++i) s.in("in" + std::to_string(i));
  for (int i = 0; i < n.outs; ++i) s.out("out" + std::to_string(i));
  if (n.optional) s.in_optional("nothing");
  if (n.holds) s.gate();
  s.lane(static_cast<LaneKind>(n.lane)).limit(n.limit);
  if (n.random) s.random();
  if (n.ordered) s.ordered();
  s.param("size", &P::size, "").param("drop_last", &P::drop_last, "").param("net", &P::net, "");
  switch (n.kind) {
    case Kind::source:
      s.source();
      break;
    case Kind::expand:
      s.expands("size");
      break;
    case Kind::batch:
      s.gathers("size", "drop_last").gate();
      break;
    case Kind::shuffle:
      s.shuffles("size");
      break;
    case Kind::buffer:
      s.gate();
      break;
    case Kind::cache:
      s.cache();
      break;
    case Kind::reader:
      s.reads("net");
      break;
    case Kind::updater:
      s.updates("net");
      break;
    default:
      break;
  }
  return s;
}

Trial::Trial(const Program& program, Memory& memory, Setup setup)
    : p_(program), memory_(memory), setup_(setup), events_(std::make_unique<Events>(*this)) {
  b_.graph.run.epochs = p_.epochs;
  b_.graph.run.max_bad = p_.max_bad;
  for (int i = 0; i < static_cast<int>(p_.nodes.size()); ++i) {
    add(i);
    meters_.push_back(std::make_unique<Meter>());
  }
  if (!b_.plan(setup_.threads)) {
    std::string all;
    for (const auto& d : b_.diagnostics.all()) all += d.code + ": " + d.message + "\n";
    throw std::logic_error("no plan:\n" + all + describe(p_));
  }
  plan = &*b_.made;
  set_credits();
}

Trial::~Trial() = default;

void Trial::add(int i) {
  const Item& n = p_.nodes[static_cast<std::size_t>(i)];
  Json params = {{"size", n.size}, {"drop_last", n.drop_last}, {"net", std::to_string(n.net)}};
  b_.add(
      n.path, spec_of(n),
      [this, i](Firing& f) {
        body(i, f);
        stops(From::end);
      },
      n.from, params);
  GraphNode& g = b_.graph.nodes.back();
  if (n.bad) g.on_error = OnError::quarantine;
  if (n.after >= 0) g.after = p_.nodes[static_cast<std::size_t>(n.after)].path;
  g.every_epochs = n.every;
  bodies_.push_back(&b_.body(i));
  if (n.says_size) bodies_.back()->size = static_cast<std::uint64_t>(n.size);
  if (n.kind == Kind::cache) {
    const std::uint64_t d = draw(static_cast<std::size_t>(i));
    bodies_.back()->cache = std::make_shared<Store>(d % 2 == 0, d);
  }
  if (n.ordered || n.kind == Kind::updater)
    bodies_.back()->end = [this, i](Flush& f) { flush(i, f); };
}

// Never fewer than the plan says are needed, and often just those.
void Trial::set_credits() {
  for (std::size_t i = 0; i < plan->nodes.size(); ++i) {
    PlanNode& n = plan->nodes[i];
    const bool region = n.gate && n.training && n.takes_turns;
    if ((n.gate || n.is_source()) && !region)
      n.credits = n.need + static_cast<int>(draw(i) % static_cast<std::uint64_t>(setup_.spare + 1));
  }
}

bool Trial::stands_still(int i, bool of_turn) const {
  const Item& n = p_.nodes[static_cast<std::size_t>(i)];
  if (of_turn) return n.kind == Kind::updater;
  const std::vector<int> region = training_region(*plan);
  const bool validates = n.behind_gate && n.stream != p_.train;
  return validates || std::find(region.begin(), region.end(), i) != region.end();
}

// All others may be at work.
Memory Trial::still(bool of_turn) const {
  Memory m = fresh_memory(p_);
  m.weights = memory_.weights;
  m.turns = memory_.turns;
  for (int i = 0; i < static_cast<int>(p_.nodes.size()); ++i) {
    if (!stands_still(i, of_turn)) continue;
    const std::string& path = p_.nodes[static_cast<std::size_t>(i)].path;
    m.logs[path] = memory_.logs.at(path);
    m.told[path] = memory_.told.at(path);
    m.states[static_cast<std::size_t>(i)] = memory_.states[static_cast<std::size_t>(i)];
  }
  return m;
}

// Counts places of that kind, and asks for a cut at the one that was drawn.
void Trial::stops(From where) {
  if (setup_.stop_at && setup_.stop_from == where && ++until_stop_ == setup_.stop_at)
    scheduler->stop();
}

void Trial::plant(int i, const Stamp& stamp, std::uint64_t salt, bool flushes) {
  const std::uint64_t h = draw(mix(static_cast<std::uint64_t>(i) + salt) ^ mix(stamp.index) ^
                               mix(stamp.epoch * 77 + stamp.path[0]));
  if (h % 8 == 0) toy::nap(mix(h) % 150);
  stops(From::begin);
  if (!setup_.fail_one_in || mix(h ^ 3) % setup_.fail_one_in) return;
  std::lock_guard lock(mutex_);
  if (thrown.empty()) first_throw_ns = now_ns();
  flush_threw |= flushes;
  thrown.emplace_back(stamp, p_.nodes[static_cast<std::size_t>(i)].path);
  if (h % 3 == 0) throw std::bad_alloc();
  throw Error(Exit::gpu, "planted");
}

void Trial::body(int i, Firing& f) {
  const Item& n = p_.nodes[static_cast<std::size_t>(i)];
  const auto at = static_cast<std::size_t>(i);
  plant(i, f.stamp(), 1);
  if (setup_.pauses && n.kind == Kind::updater && f.stamp().index % 3 == 1) scheduler->pause();
  if (n.asks_stopped && f.stopped()) return;
  if (n.holds) keeper_->keep(held_credit);
  if (n.kind == Kind::source) {
    const auto size = static_cast<std::uint64_t>(n.size);
    if (f.stamp().index == size) return f.end_epoch();
    const std::uint64_t item = source_item(n, f.stamp().index, f.epoch_key());
    const Made made = work(n, {{source_value(n, item)}}, f.random(), 0, 0);
    if (made.bad) throw DataError("bad");
    if (n.spares)
      return f.make_item(item, [&] {
        const Value& v = *made.children.front().front();
        return std::make_shared<const Sample>(v.value, v.members, meters_[at].get());
      });
    for (int port = 0; port < n.outs; ++port)
      if (const auto& v = made.children.front()[static_cast<std::size_t>(port)])
        f.emit_ptr(std::make_shared<const Sample>(v->value, v->members, meters_[at].get()), port,
                   item);
    return;
  }
  if (n.kind == Kind::cache) {
    Sample kept(f.in().value, f.in().members);
    kept.memory = f.in().memory;
    return f.emit(std::move(kept));
  }
  std::vector<std::vector<Input>> in;
  for (std::size_t port = 0; port < n.from.size(); ++port) {
    in.emplace_back();
    for (const SamplePtr& s : f.members(static_cast<int>(port))) in.back().emplace_back(*s);
  }
  if (on_device(n)) return queue(i, f, std::move(in));
  const Made made = make(i, f.stamp(), f.random(), in);
  if (made.bad) throw DataError("bad");
  if (is_stateful(n)) f.log("hash", number_of(made.hash));
  emit(i, f, made);
}

// On a device: the samples at once, what they are when the stream comes to it.
void Trial::queue(int i, Firing& f, std::vector<std::vector<Input>> inputs) {
  const Item& n = p_.nodes[static_cast<std::size_t>(i)];
  std::vector<View> outs;
  for (int c = 0; c < (n.kind == Kind::expand ? n.size : 1); ++c)
    for (int port = 0; port < n.outs; ++port) {
      auto sample = std::make_shared<Sample>(0, std::vector<std::uint64_t>{}, meter_of(i));
      sample->memory = pool_.take();
      outs.push_back(sample->memory->view);
      f.emit_ptr(std::move(sample), port);
    }
  auto hash = std::make_shared<std::atomic<std::uint64_t>>();
  if (is_stateful(n)) f.log_later("hash", [hash] { return number_of(*hash); });
  static_cast<SimulatedStream*>(f.stream())
      ->queue(
          [this, i, hash, stamp = f.stamp(), draws = f.random(), inputs = std::move(inputs), outs] {
            stops(From::stream);
            const Made made = make(i, stamp, draws, inputs);
            *hash = made.hash;
            auto to = outs.begin();
            for (const auto& child : made.children)
              for (const auto& v : child) {
                std::vector<std::uint64_t> words = v->members;
                words.insert(words.begin(), v->value);
                (to++)->write(words);
              }
          });
}

// What the node computes, and what changes with it: on the host in the body, else in its stream.
Made Trial::make(int i, const Stamp& stamp, Random draws,
                 const std::vector<std::vector<Input>>& inputs) {
  const Item& n = p_.nodes[static_cast<std::size_t>(i)];
  const auto at = static_cast<std::size_t>(i);
  std::vector<std::vector<Value>> in;
  for (const auto& port : inputs) {
    in.emplace_back();
    for (const Input& one : port) in.back().push_back(one.get());
  }
  std::uint64_t& state = memory_.states[at];
  const bool stateful = is_stateful(n);
  const std::uint64_t weight = n.net >= 0 ? memory_.weights[static_cast<std::size_t>(n.net)] : 0;
  const Made made = work(n, in, draws, stateful ? state : 0, weight);
  if (made.bad) return made;
  if (n.kind == Kind::updater) memory_.weights[static_cast<std::size_t>(n.net)] = made.hash;
  if (stateful) state = mix(state ^ made.hash);
  if (n.kind == Kind::sink) {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!n.ordered) lock.lock();
    memory_.logs[n.path].push_back(log_line(stamp.str(), in));
  }
  return made;
}

void Trial::emit(int i, Firing& f, const Made& made) {
  const Item& n = p_.nodes[static_cast<std::size_t>(i)];
  Meter* meter = meter_of(i);
  if (n.lists && n.outs == 1) {
    std::vector<std::optional<Value>> all;
    for (const auto& child : made.children) all.push_back(child.front());
    return f.emit_each(all.size(), [all, meter](std::size_t c) {
      return all[c] ? std::make_shared<const Sample>(all[c]->value, all[c]->members, meter)
                    : nullptr;
    });
  }
  for (const auto& child : made.children) {
    if (n.asks_stopped && f.stopped()) return;
    for (int port = 0; port < n.outs; ++port) {
      const auto& v = child[static_cast<std::size_t>(port)];
      if (v)
        f.emit_ptr(std::make_shared<const Sample>(v->value, v->members, meter), port);
      else if (n.kind == Kind::expand)
        f.emit_ptr(nullptr, port);  // keeps the place of a child that is left out
    }
  }
}

void Trial::flush(int i, Flush& f) {
  const Item& n = p_.nodes[static_cast<std::size_t>(i)];
  std::uint64_t& state = memory_.states[static_cast<std::size_t>(i)];
  plant(i, Stamp::first(static_cast<std::uint32_t>(n.stream), 0, 0), 2 + f.epoch, true);
  memory_.logs[n.path].push_back(flush_line(f.epoch, state));
  f.metric("state", number_of(state));
  state = 0;
}

void Trial::run() {
  RunOptions o;
  o.threads = setup_.threads;
  o.io_threads = 2;
  o.ahead = 1 + static_cast<int>(draw(77) % 3);
  o.background = false;
  o.watchdog_s = 30;
  o.resume = setup_.resume;
  o.seed = p_.seed;
  if (setup_.device)
    device_ = std::make_unique<SimulatedDevice>(
        SimulatedSettings{.seed = setup_.salt, .nap_us = setup_.salt % 3 * 40});
  o.device = device_.get();
  scheduler = std::make_unique<Scheduler>(*plan, b_.pointers(), o, *events_);
  keeper_ = std::make_unique<Keeper>();
  std::thread other;
  if (setup_.stop_at && setup_.stop_from == From::thread)
    other = std::thread([this] {
      toy::nap(draw(setup_.stop_at) % (20 * setup_.stop_at));
      scheduler->stop();
    });
  outcome = scheduler->run();
  if (other.joinable()) other.join();
}

// ---- what must hold after every run -------------------------------------------------------------

static std::uint64_t total(const std::map<std::string, std::uint64_t>& counts) {
  std::uint64_t n = 0;
  for (const auto& [reason, count] : counts) n += count;
  return n;
}

void Trial::balance(int i, std::vector<std::string>& found) const {
  const Ledger& l = scheduler->ledger(i);
  const PlanNode& n = plan->nodes[static_cast<std::size_t>(i)];
  const std::uint64_t skipped = total(l.skipped);
  bool ok = l.in == l.fired + l.passed + skipped;
  if (n.is_source()) ok = l.emitted == l.fired + skipped;
  if (n.spec->arity == Arity::gather || n.spec->arity == Arity::shuffle)
    ok = l.in == l.members + skipped;
  if (n.spec->arity == Arity::shuffle && outcome.status == Outcome::Status::done)
    ok &= l.members == l.fired;
  if (!ok)
    found.push_back("ledger of " + n.path() + ": in " + std::to_string(l.in) + " fired " +
                    std::to_string(l.fired) + " passed " + std::to_string(l.passed) + " skipped " +
                    std::to_string(skipped) + " members " + std::to_string(l.members));
}

// A credit stands for at most so many samples as the segment's nodes make of one packet.
void Trial::bound(std::vector<std::string>& found) const {
  std::vector<int> factor(plan->nodes.size(), 1), made(plan->nodes.size(), 0);
  for (std::size_t i = 0; i < plan->nodes.size(); ++i) {
    const Item& n = p_.nodes[i];
    const bool begins = plan->nodes[i].segment == static_cast<int>(i);
    if (!begins)
      for (auto [from, port] : n.from)
        factor[i] = std::max(factor[i], factor[static_cast<std::size_t>(from)]);
    if (n.kind == Kind::expand) factor[i] *= n.size;
    made[static_cast<std::size_t>(plan->nodes[i].segment)] += factor[i] * n.outs;
  }
  // On a device a training region has this step and two that were queued ahead.
  for (std::size_t i = 0; i < plan->nodes.size(); ++i)
    if (setup_.device && plan->nodes[i].gate && plan->nodes[i].training) made[i] *= 3;
  for (std::size_t i = 0; i < plan->nodes.size(); ++i)
    if (meters_[i]->most > plan->nodes[i].credits * made[i] || meters_[i]->live != 0)
      found.push_back("segment of " + p_.nodes[i].path + ": " + std::to_string(meters_[i]->most) +
                      " samples at once, " + std::to_string(meters_[i]->live) + " left, bound " +
                      std::to_string(plan->nodes[i].credits) + " x " + std::to_string(made[i]));
}

std::vector<std::string> Trial::broken(const Results* expected) {
  std::vector<std::string> found;
  const bool ended =
      outcome.status == Outcome::Status::done || outcome.status == Outcome::Status::cut;
  for (int i = 0; i < static_cast<int>(p_.nodes.size()); ++i) {
    const PlanNode& n = plan->nodes[static_cast<std::size_t>(i)];
    if (scheduler->credits_out(i) != 0) found.push_back("credits of " + n.path() + " are out");
    if (ended) balance(i, found);
    if (!expected || !n.prefix_of.empty() || n.spec->is_cache) continue;
    if (const auto bad = expected->bad.find(n.path());
        bad_[n.path()] != (bad == expected->bad.end() ? std::set<std::string>{} : bad->second))
      found.push_back(n.path() + " quarantined other samples");
    const auto it = expected->fired.find(n.path());
    const std::uint64_t want = it == expected->fired.end() ? 0 : it->second;
    if (scheduler->ledger(i).fired != want)
      found.push_back(n.path() + " fired " + std::to_string(scheduler->ledger(i).fired) +
                      " times instead of " + std::to_string(want));
  }
  bound(found);
  if (pool_.races > 0)
    found.push_back(std::to_string(pool_.races) + " races, the first: " + pool_.first);
  return found;
}

}  // namespace sluice::sim
