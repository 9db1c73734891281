// A Sample of the tests' own (the scheduler never looks inside one), toy nodes, and a builder for
// graphs without a file. Values are mixed so that any lost, doubled or swapped sample shows.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"
#include "engine/run/node.h"
#include "engine/run/scheduler.h"
#include "tests/engine/device_memory.h"

namespace sluice {

// How many Samples of one segment are alive, and how many ever were at once.
struct Meter {
  std::atomic<int> live{0}, most{0};
  void enter() {
    const int now = ++live;
    for (int m = most; now > m && !most.compare_exchange_weak(m, now);) {
    }
  }
};

class Sample {
 public:
  std::uint64_t value = 0;
  std::vector<std::uint64_t> members;          // of a batch
  std::shared_ptr<const Pool::Handle> memory;  // where both lie on a device; null: here
  explicit Sample(std::uint64_t v = 0, std::vector<std::uint64_t> m = {}, Meter* where = nullptr)
      : value(v), members(std::move(m)), meter(where) {
    ++live;
    if (meter) meter->enter();
  }
  Sample(const Sample& o) : Sample(o.value, o.members, o.meter) { memory = o.memory; }
  ~Sample() {
    --live;
    if (meter) --meter->live;
  }
  static inline std::atomic<int> live{0};

 private:
  Meter* meter;
};

namespace toy {

// A node whose body is a function; flush and state too.
struct Body final : Node {
  std::function<void(Firing&)> fn;
  std::function<void(Flush&)> end;
  std::shared_ptr<CacheStore> cache;
  std::optional<std::uint64_t> size;  // of a source's epoch
  void process(Firing& f) override { fn(f); }
  void flush(Flush& f) override {
    if (end) end(f);
  }
  CacheStore* store() override { return cache.get(); }
  std::optional<std::uint64_t> epoch_size() const override { return size; }
};

struct MemoryStore final : CacheStore {
  std::mutex mutex;
  std::map<std::uint64_t, Entry> entries;
  bool files = false;               // claims to read some, so it is asked on any thread
  std::function<void()> on_find{};  // called first, by whoever asks
  bool reads() const override { return files; }
  std::optional<Entry> find(std::uint64_t item) override {
    if (on_find) on_find();
    std::lock_guard lock(mutex);
    auto it = entries.find(item);
    if (it == entries.end()) return std::nullopt;
    return it->second;
  }
  void put(std::uint64_t item, Entry entry) override {
    std::lock_guard lock(mutex);
    entries[item] = std::move(entry);
  }
};

// Builds a Graph and its nodes in code: add() in any order, then plan() and run().
class Builder {
 public:
  Graph graph;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<Spec>> specs;
  Diagnostics diagnostics;
  std::optional<Plan> made;

  // `spec` says the traits; `from` are node indices or {node, out-port} by in-port.
  int add(const std::string& path, Spec spec, std::function<void(Firing&)> fn,
          std::vector<std::pair<int, int>> from = {}, Json params = Json::object()) {
    specs.push_back(std::make_unique<Spec>(std::move(spec)));
    GraphNode g;
    g.path = path;
    g.spec = specs.back().get();
    g.params = std::move(params);
    for (const auto& [key, v] : g.params.items()) g.given.push_back(key);
    for (const auto& key : g.spec->network_params)
      if (!g.params.contains(key)) g.params[key] = "net";
    for (std::size_t i = 0; i < from.size(); ++i)
      g.inputs.push_back({static_cast<int>(i), from[i].first, from[i].second, {}});
    graph.nodes.push_back(std::move(g));
    auto body = std::make_unique<Body>();
    body->fn = std::move(fn);
    nodes.push_back(std::move(body));
    return static_cast<int>(nodes.size()) - 1;
  }
  Body& body(int i) { return static_cast<Body&>(*nodes[i]); }

  // n values base, base+1, ... an epoch.
  int source(const std::string& path, std::uint64_t n, std::uint64_t base = 0) {
    return add(path, Spec("source", "").out("sample").source(), [n, base](Firing& f) {
      if (f.stamp().index == n) return f.end_epoch();
      f.emit_item(f.stamp().index, Sample(base + f.stamp().index));
    });
  }

  bool plan(int threads = 2) {
    PlanOptions o;
    o.threads = threads;
    made = make_plan(graph, o, diagnostics);
    return made.has_value();
  }
  std::vector<Node*> pointers() {
    std::vector<Node*> p;
    for (auto& n : nodes) p.push_back(n.get());
    return p;
  }
};

inline void nap(std::uint64_t us) {
  if (us) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

// ---- specs of toy nodes -------------------------------------------------------------------------

struct P {
  std::int64_t size = 4, n = 1;
  bool drop_last = false;
  std::string net = "net";
};

inline Spec plain(const char* name) { return Spec(name, "").in("sample").out("sample"); }
inline Spec sink(const char* name) { return Spec(name, "").in("sample").ordered(); }
Spec batch_spec();    // size, drop_last; a gate of n credits
Spec expand_spec();   // n children
Spec buffer_spec();   // a gate of n credits
Spec shuffle_spec();  // a window of n
Spec reader_spec(LaneKind lane = LaneKind::step);
Spec updater_spec(LaneKind lane = LaneKind::step);

// Bodies.
inline void forward(Firing& f) { f.emit_ptr(f.ptr()); }
void join_members(Firing& f);  // a batch's body: the members' values, and a hash of them

// Plans where that is to be done, runs, and checks that every credit came home.
Outcome run(Builder& b, int threads, RunEvents* events = nullptr, RunOptions o = {});

}  // namespace toy
}  // namespace sluice
