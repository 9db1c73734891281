// Turns: who holds a network that is updated, and when; and how many epochs that makes.
#include <algorithm>
#include <set>

#include "engine/graph/networks_of.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Turns : PlanPass {
 public:
  explicit Turns(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
    for (int i : plan_.order)
      if (node(i).spec->access == Access::update) updater(i);
    for (int i : plan_.order)
      if (node(i).spec->access == Access::read) reader(i);
    if (plan_.turns)
      for (int u : plan_.turns->updaters) lone_updater(u), follower(u);
    for (std::size_t s = 0; s < plan_.streams.size(); ++s) validation(static_cast<int>(s));
    epochs();
    if (plan_.turns && graph_.run.checkpoint_every_s.value_or(0) > 0) pauses();
  }

 private:
  int updater_of(const std::string& network) const {
    if (!plan_.turns) return -1;
    const auto& all = plan_.turns->networks;
    const auto at = std::find(all.begin(), all.end(), network);
    return at == all.end() ? -1 : plan_.turns->updaters[static_cast<std::size_t>(at - all.begin())];
  }

  // Of two updaters the one that stands further down in the file is reported.
  void second_updater(int i) {
    const std::string name = network_updated_by(*node(i).graph);
    const int first = std::min(i, updater_of(name)), second = std::max(i, updater_of(name));
    error_at(second, node(second).spec->network_params.front(), "SL0410",
             "network \"" + name + "\" is updated by \"" + path(first) + "\" already",
             "give it a network of its own, or remove it");
  }

  void updater(int i) {
    PlanNode& n = node(i);
    const std::string name = network_updated_by(*n.graph);
    if (learns(name)) return second_updater(i);
    if (!plan_.turns) {
      plan_.turns.emplace().train_stream = n.stream;
      plan_.streams[n.stream].takes_turns = plan_.streams[n.stream].trains = true;
    }
    if (plan_.turns->train_stream != n.stream) return second_stream(i);
    plan_.turns->networks.push_back(name);
    plan_.turns->updaters.push_back(i);
    n.takes_turns = n.training = n.ordered = true;
    n.concurrency = 1;
  }

  // Between two turns nobody holds a network, so there all that learns is saved. Two streams that
  // train would have to stop for each other there.
  void second_stream(int i) {
    const int first = plan_.turns->updaters.front();
    error(i, "SL0415",
          "\"" + path(i) + "\" and \"" + path(first) +
              "\" update networks in streams of their own, from \"" +
              path(plan_.streams[node(i).stream].source) + "\" and \"" +
              path(plan_.streams[node(first).stream].source) + "\"",
          "train both in one stream, or in two runs");
  }

  // An updater that misses a field is connected to the wrong node.
  bool updater_has_no_loss() {
    const auto& all = diagnostics_.all();
    return std::any_of(all.begin(), all.end(), [&](const Diagnostic& d) {
      const auto of = [&](int u) { return d.path.starts_with("nodes." + path(u) + "."); };
      const auto& updaters = plan_.turns->updaters;
      return d.code == "SL0601" && std::any_of(updaters.begin(), updaters.end(), of);
    });
  }

  // Those of the networks that a node reads which somebody updates.
  std::vector<std::string> learners(int i) {
    std::vector<std::string> found = networks_of(*node(i).graph);
    std::erase_if(found, [&](const std::string& name) { return !learns(name); });
    return found;
  }

  std::string key_of(int i, const std::string& network) {
    for (const std::string& key : node(i).spec->network_params)
      if (param<std::string>(node(i), key, "") == network) return key;
    return "";
  }

  // Behind its updater, and between the region's gate and another updater: the region's credit is
  // not home before this node is done, so it sees this batch's step and none of a later one.
  bool sees_the_step(int i, const std::string& network) {
    const int own = updater_of(network);
    const std::set<int> before = upstream(i), behind = downstream(i);
    if (before.count(own) == 0) return false;
    const auto& updaters = plan_.turns->updaters;
    const std::set<int> before_own = upstream(own);
    return std::any_of(updaters.begin(), updaters.end(),
                       [&](int u) { return behind.count(u) > 0; }) &&
           std::any_of(before_own.begin(), before_own.end(), [&](int a) {
             return node(a).gate && node(a).training && node(a).spec->access == Access::read;
           });
  }

  void reader(int i) {
    PlanNode& n = node(i);
    const std::vector<std::string> names = learners(i);
    if (names.empty()) return;  // nobody updates any: no turns
    const std::set<int> behind = downstream(i);
    // A network's own updater, not just one of the same turns: else that network might be updated
    // for this batch before or after it is read for it.
    const auto starved = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return behind.count(updater_of(name)) == 0 && !sees_the_step(i, name);
    });
    const bool same_stream = n.stream == plan_.turns->train_stream;
    if (same_stream && starved != names.end()) {
      if (updater_has_no_loss()) return;  // it was said already
      error_at(i, key_of(i, *starved), "SL0411",
               "\"" + path(i) + "\" reads network \"" + *starved +
                   "\" in the stream that trains it but does not feed its updater, so what it "
                   "reads would depend on timing",
               "give it a source of its own with \"after\": \"" +
                   path(plan_.turns->updaters.front()) + "\"");
      return;
    }
    n.training = same_stream;
    for (int a : upstream(i)) {  // only the first reader is a gate
      if (!node(a).takes_turns || !node(a).gate || node(a).spec->access != Access::read) continue;
      if (same_stream && n.domain != node(a).domain)
        error_at(i, key_of(i, names.front()), "SL0416",
                 "\"" + path(i) + "\" reads network \"" + names.front() +
                     "\" behind a 1:n node of the " + "region that begins at \"" + path(a) +
                     "\", so whether a child sees the update of the one before depends on timing",
                 "move the 1:n node in front of \"" + path(a) + "\"");
      return;
    }
    n.gate = true;
    n.takes_turns = true;
    if (!same_stream) {
      std::set<int> sinks;
      if (n.is_sink()) sinks.insert(i);
      for (int b : behind)
        if (node(b).is_sink()) sinks.insert(b);
      auto& all = plan_.turns->sinks;
      for (int b : sinks)
        if (std::find(all.begin(), all.end(), b) == all.end()) all.push_back(b);
    } else {
      n.ordered = true;
      n.concurrency = 1;
      region(i);
    }
  }

  // An updater that no reader stands before is its own region: without a gate it would go on
  // to the next training epoch while a validation turn reads what it changes.
  void lone_updater(int u) {
    for (int a : upstream(u))
      if (node(a).begins_training()) return;
    node(u).gate = true;
  }

  // What follows a network takes its weights as the step has left them.
  void follower(int i) {
    const std::string& key = node(i).spec->follows_param;
    const auto name = param<std::string>(node(i), key, "");
    if (name.empty()) return;
    const int leader = updater_of(name);
    if (leader >= 0 && upstream(i).count(leader)) return;
    error_at(i, key, "SL0417",
             "\"" + path(i) + "\" follows network \"" + name + "\" but does not stand behind " +
                 (leader < 0 ? "a node that updates it" : "\"" + path(leader) + "\""),
             leader < 0 ? "" : "write \"in\": \"" + path(leader) + "\"");
  }

  // Nothing between the first training reader and the updaters may begin another segment: its
  // credit would come home before the update is done.
  void region(int first) {
    for (int u : plan_.turns->updaters) {
      const std::set<int> before = upstream(u);
      for (int b : downstream(first))
        if (before.count(b) && (node(b).spec->is_gate || node(b).spec->arity == Arity::gather))
          error(b, "SL0412",
                "\"" + path(b) + "\" (" + node(b).spec->name + ") stands between \"" + path(first) +
                    "\" and its updater \"" + path(u) + "\", inside the training region",
                "move it in front of \"" + path(first) + "\"");
    }
  }

  void validation(int s) {
    PlanStream& stream = plan_.streams[s];
    const GraphNode& source = *node(stream.source).graph;
    const auto reader = std::ranges::find_if(plan_.nodes, [&](const PlanNode& n) {
      return n.stream == s && n.takes_turns && !n.training;
    });
    const bool reads = reader != plan_.nodes.end();
    if (source.after.empty()) {
      if (reads)
        error(stream.source, "SL0413",
              "\"" + source.path + "\" feeds a reader of network \"" +
                  learners(static_cast<int>(reader - plan_.nodes.begin())).front() +
                  "\", which is being trained",
              "say when it runs: \"after\": \"" + path(plan_.turns->updaters.front()) + "\"");
      return;
    }
    const int after = graph_.find(source.after);
    if (after < 0 || node(after).spec->access != Access::update) {
      error_at(stream.source, "after", "SL0414",
               "\"after\" names \"" + source.after + "\", which updates no network",
               updaters_hint());
      return;
    }
    if (!node(after).takes_turns) return;  // of a second stream: reported there
    if (stream.trains) {
      error_at(stream.source, "after", "SL0415",
               "\"" + source.path + "\" trains a network itself, so it cannot wait for \"" +
                   source.after + "\"",
               "remove \"after\"");
      return;
    }
    stream.takes_turns = true;
    stream.every = source.every_epochs;
    plan_.turns->streams.push_back(s);
    if (!reads) wait_for_sinks(s);
  }

  std::string updaters_hint() const {
    std::string names;
    if (plan_.turns)
      for (int u : plan_.turns->updaters) names += (names.empty() ? "\"" : ", \"") + path(u) + "\"";
    return names.empty() ? "the graph updates none" : "the updaters are " + names;
  }

  // A validation stream that reads nothing (it writes a file, say) still has its turn.
  void wait_for_sinks(int s) {
    for (int i = 0; i < size(); ++i)
      if (node(i).stream == s && node(i).is_sink()) plan_.turns->sinks.push_back(i);
  }

  // Of nodes side by side one may be a step ahead of the other, so no step is behind both.
  void pauses() {
    std::string names;
    const std::vector<int> gates = plan_.training_gates();
    for (int i : gates) names += (names.empty() ? "\"" : " and \"") + path(i) + "\"";
    if (gates.size() > 1)
      diagnostics_.warning("SL0418",
                           names +
                               " begin training side by side, so \"every_s\" writes no checkpoint "
                               "before an epoch's end",
                           Place{graph_.document, "/run/checkpoint/every_s"},
                           "run.checkpoint.every_s", "put one network behind the other's updater");
  }

  void epochs() {
    for (PlanStream& s : plan_.streams) s.epochs = graph_.run.epochs;
    if (!plan_.turns) return;
    for (int s : plan_.turns->streams) plan_.streams[s].epochs = 0;
    const TurnOrder order = plan_.sequence();
    for (int s : plan_.turns->streams)
      plan_.streams[s].epochs = order.epochs_before(s, order.size());
  }
};

}  // namespace

void plan_turns(const PlanPass& pass) { Turns(pass).run(); }

}  // namespace sluice
