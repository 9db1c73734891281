// Runs a graph in this process and keeps what reaches it: {"type": "collect", "in": ...} is a sink
// that tests may use beside all other nodes.
#pragma once

#include <ATen/Parallel.h>

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/run/arranged_source.h"
#include "engine/run/open_context.h"
#include "engine/run/registry.h"
#include "engine/run/scheduler.h"
#include "engine/state/sample.h"
#include "engine/state/upstream.h"

namespace sluice {

struct Collected {
  std::map<std::string, std::vector<SamplePtr>> epochs;  // by "node/epoch", in stamp order
  std::map<std::string, CacheStore::Held> held;          // by cache
  std::map<std::string, std::uint64_t> fired;            // by node
  std::map<std::string, Reading> read;                   // at the end
  std::set<std::string> quarantined;                     // "node: message"
  std::string failure;
};

// Called for what is collected, before it is; `held` answers for the graph's first cache.
using Watch = std::function<void(const Firing&, const std::function<CacheStore::Held()>& held)>;

struct Quarantines final : RunEvents {
  explicit Quarantines(Collected& to) : to_(to) {}
  void quarantined(const Quarantined& q) override {
    std::lock_guard lock(mutex_);
    to_.quarantined.insert(q.node + ": " + q.message);
  }

 private:
  Collected& to_;
  std::mutex mutex_;
};

class Collect final : public Node {
 public:
  Collect(Collected& to, std::string name, std::function<void(const Firing&)> watch)
      : to_(to), name_(std::move(name)), watch_(std::move(watch)) {}
  void process(Firing& f) override {
    watch_(f);
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    to_.epochs[name_ + "/" + std::to_string(f.stamp().epoch)].push_back(f.ptr());
  }

 private:
  Collected& to_;
  const std::string name_;
  const std::function<void(const Firing&)> watch_;
};

inline const Catalogue& with_collect() {
  static const Catalogue catalogue = [] {
    Catalogue c = Catalogue::from_json(Registry::global().catalogue().to_json());
    c.add(Spec("collect", "Keeps what comes.").in("sample").ordered().any_device());
    return c;
  }();
  return catalogue;
}

inline Collected run_graph(const Json& json, int threads = 2, const Watch& watch = {}) {
  Diagnostics diagnostics;
  auto graph = load_graph(parse_document("test.json", json.dump(), diagnostics), with_collect(), {},
                          diagnostics);
  auto plan = graph ? make_plan(*graph, {threads}, diagnostics) : std::nullopt;
  if (!plan) throw std::logic_error(diagnostics.to_json().dump());
  Collected found;
  std::vector<std::unique_ptr<Node>> nodes(plan->nodes.size());
  const auto at = [&](int i) -> std::unique_ptr<Node>& {
    return nodes[static_cast<std::size_t>(i)];
  };
  const auto watched = [&](const Firing& f) {
    if (watch) watch(f, [&] { return at(plan->streams[0].caches.at(0))->store()->held(); });
  };
  for (int i : plan->order) {
    const PlanNode& n = plan->nodes[static_cast<std::size_t>(i)];
    if (n.spec->name == "collect")
      at(i) = std::make_unique<Collect>(found, n.path(), watched);
    else
      at(i) = Registry::global().make_node(n.spec->name, n.graph->params);
    OpenContext context = planned_context(*plan, i);
    if (n.spec->is_cache || n.spec->chooses_items)
      context.upstream = upstream_of(*plan, i, [&](int other) { return at(other).get(); });
    at(i)->open(context);
  }
  arrange_sources(*plan, static_cast<std::uint64_t>(graph->run.seed), nodes);
  RunOptions options;
  options.threads = threads;
  options.background = false;
  options.seed = static_cast<std::uint64_t>(graph->run.seed);
  options.on_thread = [](LaneKind) {
    at::get_num_threads();
    at::set_num_threads(1);
  };
  std::vector<Node*> pointers;
  for (auto& n : nodes) pointers.push_back(n.get());
  Quarantines events(found);
  Scheduler scheduler(*plan, pointers, options, events);
  const Outcome outcome = scheduler.run();
  if (outcome.status != Outcome::Status::done)
    found.failure = outcome.failure.str() + outcome.stall;
  for (int i : plan->order) {
    const std::string& path = plan->nodes[static_cast<std::size_t>(i)].path();
    if (const CacheStore* store = at(i)->store()) found.held[path] = store->held();
    found.fired[path] = scheduler.ledger(i).fired;
    found.read[path] = scheduler.readings()[static_cast<std::size_t>(i)];
  }
  return found;
}

// Every bit of both, geometry included.
inline bool same_sample(const Sample& a, const Sample& b) {
  if (a.name != b.name || a.fields().size() != b.fields().size()) return false;
  for (std::size_t i = 0; i < a.fields().size(); ++i) {
    const auto& [key, f] = a.fields()[i];
    const auto& [other, g] = b.fields()[i];
    if (key != other || f.tensor.defined() != g.tensor.defined() || f.meta.size() != g.meta.size())
      return false;
    for (std::size_t m = 0; m < f.meta.size(); ++m) {
      const Meta &x = *f.meta[m], &y = *g.meta[m];
      if (x.path != y.path || x.affine != y.affine || x.has_affine != y.has_affine ||
          x.history.size() != y.history.size())
        return false;
      for (std::size_t h = 0; h < x.history.size(); ++h)
        if (x.history[h].transform != y.history[h].transform ||
            x.history[h].affine_before != y.history[h].affine_before ||
            x.history[h].shape_before != y.history[h].shape_before ||
            x.history[h].values != y.history[h].values)
          return false;
    }
    if (!f.tensor.defined()) continue;
    if (f.tensor.scalar_type() != g.tensor.scalar_type() || f.tensor.sizes() != g.tensor.sizes())
      return false;
    const at::Tensor s = f.tensor.contiguous(), t = g.tensor.contiguous();
    if (std::memcmp(s.const_data_ptr(), t.const_data_ptr(), s.nbytes()) != 0) return false;
  }
  return true;
}

inline bool same_samples(const Collected& a, const Collected& b) {
  if (a.epochs.size() != b.epochs.size()) return false;
  for (const auto& [key, samples] : a.epochs) {
    const auto it = b.epochs.find(key);
    if (it == b.epochs.end() || it->second.size() != samples.size()) return false;
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (!same_sample(*samples[i], *it->second[i])) return false;
  }
  return true;
}

}  // namespace sluice
