// How each stream's batches are divided over packets (run.shards) and over processes.
#include <algorithm>

#include "engine/base/counted.h"
#include "engine/graph/field_names.h"
#include "engine/graph/inner_nodes.h"
#include "engine/graph/networks_of.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Splits : PlanPass {
 public:
  explicit Splits(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
    const std::int64_t shards = graph_.run.shards.value_or(options_.processes);
    if (shards == 1 && options_.processes == 1) return;
    bool trains = false;
    for (std::size_t s = 0; s < plan_.streams.size(); ++s) {
      PlanStream& stream = plan_.streams[s];
      if (!stream.trains) {
        stream.division = whole_batches(static_cast<int>(s));
        continue;
      }
      training(static_cast<int>(s), shards);
      trains = true;
    }
    if (trains && graph_.run.shards && graph_.run.step_threads == 0)
      diagnostics_.warning(
          "SL0451",
          "run.shards is " + std::to_string(shards) +
              ", but run.step_threads is not given: the weights' bits depend on it, and by itself "
              "it is the cores that a process has",
          Place{graph_.document, "/run/shards"}, "run.shards",
          "give \"step_threads\" too, and any number of processes makes the same weights");
  }

 private:
  // The nodes of a stream that count samples anew.
  struct Counts {
    int gather = -1, gathers = 0, shuffle = -1;
    std::int64_t children = 1;  // of an item, in front of the gather; 0: it varies
  };

  Counts counts(int s) {
    Counts c;
    for (int i : plan_.order) {
      const PlanNode& n = node(i);
      if (n.stream != s) continue;
      if (n.spec->arity == Arity::shuffle) c.shuffle = i;
      if (n.spec->arity == Arity::gather) c.gather = i, ++c.gathers;
    }
    if (c.gather < 0) return c;
    for (int a : upstream(c.gather))
      if (node(a).spec->arity == Arity::expand) c.children *= node(a).count;
    return c;
  }

  void training(int s, std::int64_t shards) {
    PlanStream& stream = plan_.streams[static_cast<std::size_t>(s)];
    const Counts c = counts(s);
    const std::string n = std::to_string(shards);
    const std::string divided = graph_.run.shards ? "run.shards is " + n
                                                  : n + " processes divide a batch into " + n +
                                                        " shards, since run.shards is not given";
    const auto refuse = [&](int i, const std::string& key, const std::string& what,
                            const std::string& hint) {
      error_at(i, key, "SL0450", divided + ", but " + what, hint);
    };
    for (int u : plan_.turns->updaters) {
      if (param<std::int64_t>(node(u), "grad_accumulation", 1) > 1)
        return refuse(u, "grad_accumulation",
                      "\"" + path(u) + "\" adds up gradients of several batches",
                      "shards are such parts: give a larger batch and more shards");
      const auto& params = node(u).spec->params;
      if (std::any_of(params.begin(), params.end(), holds_a_step))
        return refuse(
            u, "",
            "\"" + path(u) + "\" takes several steps of a batch, each of which needs all of it",
            "train it as one process, without run.shards");
      const std::string network = network_updated_by(*node(u).graph);
      for (int i : downstream(u)) {
        const std::vector<std::string> names = networks_of(*node(i).graph);
        if (node(i).spec->access == Access::read &&
            std::find(names.begin(), names.end(), network) != names.end())
          return refuse(i, "",
                        "\"" + path(i) + "\" reads network \"" + network + "\" behind \"" +
                            path(u) + "\", which takes its step with the last shard",
                        "train it as one process, or let the reader stand in front of the updater");
      }
    }
    if (c.gathers != 1)
      return refuse(stream.source, "",
                    "the stream of \"" + path(stream.source) + "\" has " +
                        (c.gathers == 0 ? "no batch" : "several batches one after the other"),
                    "one \"batch\" in front of the model says what a step is made of");
    // Of several processes each would take the two networks' steps in an order of its own, and wait
    // in one for a process that waits in the other.
    const std::vector<int> begins = plan_.training_gates();
    if (options_.processes > 1 && begins.size() > 1)
      return refuse(
          begins[1], "",
          "\"" + path(begins[0]) + "\" and \"" + path(begins[1]) + "\" begin training side by side",
          "put one network behind the other's updater, or train it as one process");
    PlanNode& batch = node(c.gather);
    const auto behind = downstream(c.gather);
    for (int u : plan_.turns->updaters)
      for (int i : upstream(u))
        if (node(i).spec->arity == Arity::expand && std::ranges::find(behind, i) != behind.end())
          return refuse(i, "",
                        "\"" + path(i) + "\" makes several of each shard in front of \"" + path(u) +
                            "\", which counts shards",
                        "put it in front of \"" + path(c.gather) + "\"");
    if (c.shuffle >= 0)
      return refuse(c.shuffle, "", "\"" + path(c.shuffle) + "\" mixes samples of different shards",
                    "let the source shuffle");
    if (batch.drop_last)
      return refuse(c.gather, batch.spec->drop_last_param,
                    "\"" + batch.path() +
                        "\" drops an epoch's last batch, of which some shards "
                        "would be on their way",
                    "the last, smaller batch counts by its samples: leave \"drop_last\" out");
    couplings(s, shards);
    of_first(s, shards);
    const std::string size = std::to_string(batch.count);
    if (c.children == 0)
      return refuse(c.gather, batch.spec->count_param,
                    "a 1:n node in front of \"" + batch.path() +
                        "\" makes now more, now fewer "
                        "samples of an item",
                    "");
    if (batch.count % c.children != 0)
      return refuse(
          c.gather, batch.spec->count_param,
          "a batch of " + size + " is no whole number of items of " + std::to_string(c.children) +
              " samples each",
          "give " +
              std::to_string(std::max<std::int64_t>(1, batch.count / c.children) * c.children) +
              " or " + std::to_string((batch.count / c.children + 1) * c.children));
    stream.division = {
        .items = batch.count / c.children, .parts = shards, .trains = true, .samples = batch.count};
    if (stream.division.items < shards)
      refuse(c.gather, batch.spec->count_param,
             "a batch of " + size + " has " + counted(stream.division.items, "item") +
                 " of the source to divide",
             "at most one shard an item");
  }

  void couplings(int s, std::int64_t shards) {
    for (int i = 0; i < size(); ++i) {
      const GraphNode& n = *node(i).graph;
      const auto couples = [&](const FieldRule& r) {
        return r.act == FieldRule::Act::couples && holds(r, n.params.value(r.when, Json()));
      };
      const auto& rules = node(i).spec->rules;
      const auto rule = std::ranges::find_if(rules, couples);
      if (node(i).stream != s || rule == rules.end()) continue;
      const std::string key = n.is_given(rule->when) ? rule->when : "type";
      diagnostics_.warning(
          "SL0452",
          "\"" + path(i) + "\" (" + node(i).spec->name +
              ") is no mean over the samples of a batch, and with " + std::to_string(shards) +
              " shards it sees those of one shard",
          n.place.child(key), "nodes." + path(i) + "." + key,
          "as under PyTorch's DDP; what treats each sample alone is the same for any shards");
    }
  }

  // What nobody puts together again, and no updater makes the same everywhere.
  void of_first(int s, std::int64_t shards) {
    for (int i = 0; i < size(); ++i) {
      const Spec& spec = *node(i).spec;
      if (node(i).stream == s && spec.is_ordered && !spec.merging && spec.access != Access::update)
        diagnostics_.warning(
            "SL0453",
            "\"" + path(i) + "\" (" + spec.name + ") stands in the training stream, and of " +
                std::to_string(shards) + " shards it is given those of the first process alone",
            node(i).graph->place.child("type"), "nodes." + path(i) + ".type",
            "in one process it is given all; a metric such as cumulative_average is the same in "
            "any number");
    }
  }

  // Nothing is updated there, so whole batches go round.
  Division whole_batches(int s) {
    const Counts c = counts(s);
    bool parts = c.shuffle < 0 && c.gathers <= 1 && c.children > 0;
    for (const PlanNode& n : plan_.nodes)
      if (n.stream == s) parts &= !n.drop_last && (!n.ordered || n.spec->merging);
    const std::int64_t size = c.gather < 0 ? 1 : node(c.gather).count;
    if (!parts || size % c.children != 0) return {.by_first = true};
    return {.items = size / c.children, .parts = 1, .samples = size};
  }
};

}  // namespace

void plan_shards(const PlanPass& pass) { Splits(pass).run(); }

}  // namespace sluice
