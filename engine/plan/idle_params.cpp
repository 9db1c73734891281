// Parameters of nodes that train which change nothing as the others stand, those that need another,
// and epochs that a run does not have.
#include <algorithm>
#include <map>
#include <string_view>

#include "engine/graph/parameter_groups.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

// Which values of an optimizer's lr_schedule read a parameter.
using Schedules = std::vector<std::string>;
const std::map<std::string, Schedules, std::less<>>& readers() {
  static const Schedules ends{"linear",    "polynomial",    "cosine",
                              "one_cycle", "warmup_cosine", "linear_warmup_cosine_annealing"},
      bottoms{"cosine", "cosine_annealing_warm_restarts", "warmup_cosine",
              "linear_warmup_cosine_annealing", "cyclic"},
      cycles{"one_cycle", "cyclic"}, one_cycle{"one_cycle"}, cyclic{"cyclic"}, linear{"linear"},
      restarts{"cosine_annealing_warm_restarts"}, plateau{"reduce_on_plateau"};
  static const std::map<std::string, Schedules, std::less<>> all{
      {"total_steps", ends},
      {"eta_min", bottoms},
      {"cycles", {"warmup_cosine"}},
      {"step_size", {"step"}},
      {"milestones", {"multi_step"}},
      {"gamma", {"step", "multi_step", "exponential", "cyclic"}},
      {"power", {"polynomial"}},
      {"start_factor", linear},
      {"end_factor", linear},
      {"T_0", restarts},
      {"T_mult", restarts},
      {"pct_start", one_cycle},
      {"div_factor", one_cycle},
      {"final_div_factor", one_cycle},
      {"anneal_strategy", one_cycle},
      {"cycle_momentum", cycles},
      {"base_momentum", cycles},
      {"max_momentum", cycles},
      {"step_size_up", cyclic},
      {"step_size_down", cyclic},
      {"cyclic_mode", cyclic},
      {"metric", plateau},
      {"mode", plateau},
      {"factor", plateau},
      {"patience", plateau},
      {"threshold", plateau},
      {"threshold_mode", plateau},
      {"cooldown", plateau},
      {"min_lr", plateau}};
  return all;
}

std::string listed(const Schedules& all) {
  std::string text;
  for (const std::string& s : all) text += (text.empty() ? "\"" : ", \"") + s + "\"";
  return text;
}

class IdleParams : PlanPass {
 public:
  explicit IdleParams(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
    for (int i = 0; i < size(); ++i) {
      const GraphNode& n = *node(i).graph;
      check(n);
      for (const GraphNode& inner : n.step) check(inner);
    }
  }

 private:
  void check(const GraphNode& n) {
    if (n.spec->find_param("lr_schedule")) {
      schedule(n);
      nesterov(n);
    }
    if (!plan_.turns) return;
    if (const ParamSpec* groups = n.spec->find_param("groups"); groups && holds_groups(*groups))
      for (std::size_t g = 0; g < n.params["groups"].size(); ++g) {
        const Json from = n.params["groups"][g].value("from_epoch", Json());
        begins(n, from, n.place.child("groups").child(g).child("from_epoch"),
               "groups." + std::to_string(g) + ".from_epoch", "these parameters stay frozen");
      }
    if (!n.spec->follows_param.empty() && n.spec->find_param("from_epoch"))
      begins(n, n.params["from_epoch"], n.place.child("from_epoch"), "from_epoch",
             "its network ends as the trained one's last weights");
  }

  void schedule(const GraphNode& n) {
    const std::string chosen = n.params["lr_schedule"];
    for (const auto& [name, schedules] : readers()) {
      if (!n.is_given(name) || std::ranges::find(schedules, chosen) != schedules.end()) continue;
      if (const ParamSpec* p = n.spec->find_param(name); !p || n.params[name] == p->fallback)
        continue;
      diagnostics_.warning(
          "SL0318", "\"" + name + "\" has no effect here: \"lr_schedule\" is \"" + chosen + "\"",
          n.place.child(name).key(), "nodes." + n.path + "." + name,
          "it is of " + listed(schedules));
    }
    if (chosen == "multi_step" && n.params["milestones"].empty())
      diagnostics_.error("SL0224", "\"lr_schedule\" multi_step needs \"milestones\"",
                         n.place.child("lr_schedule"), "nodes." + n.path + ".lr_schedule");
  }

  // As torch.optim.SGD. A cycle moves the momentum whatever it is.
  void nesterov(const GraphNode& n) {
    const Json& p = n.params;
    const std::string chosen = p["lr_schedule"];
    const bool cycles =
        p["cycle_momentum"] == true && (chosen == "one_cycle" || chosen == "cyclic");
    if (p.value("nesterov", false) && p["momentum"] == 0 && !cycles)
      diagnostics_.error("SL0224", "\"nesterov\" needs a \"momentum\" above 0",
                         n.place.child("nesterov"), "nodes." + n.path + ".nesterov");
  }

  void begins(const GraphNode& n, const Json& from, const Place& place, const std::string& key,
              const std::string& so) {
    if (!from.is_number_integer() || from.get<std::int64_t>() < graph_.run.epochs) return;
    diagnostics_.warning("SL0318",
                         "\"from_epoch\" is " + from.dump() + ", counted from 0, and the run has " +
                             std::to_string(graph_.run.epochs) + " (run.epochs): " + so,
                         place.key(), "nodes." + n.path + "." + key);
  }
};

}  // namespace

void check_idle_params(const PlanPass& pass) { IdleParams(pass).run(); }

}  // namespace sluice
