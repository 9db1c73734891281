// The rule that ends a run early: whether its metric is known when it is applied.
#include <algorithm>

#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Stop : PlanPass {
 public:
  explicit Stop(const PlanPass& pass) : PlanPass(pass) {}

  // The metric of run.stop must be known between two turns, whatever the timing.
  void run() {
    const auto& stop = graph_.run.stop;
    if (!stop) return;
    const auto dot = stop->metric.rfind('.');
    const std::string name = stop->metric.substr(0, dot);
    const int i = dot == std::string::npos ? -1 : graph_.find(name);
    std::vector<std::string> fit;
    for (const PlanTurns& t : plan_.turns) {
      for (int s : t.sinks) fit.push_back(path(s));
      for (int u : t.updaters) fit.push_back(path(u));
    }
    if (i >= 0 && std::find(fit.begin(), fit.end(), name) != fit.end())
      return reported(i, stop->metric.substr(dot + 1), *stop);
    std::string hint;
    if (const std::string meant = nearest(name, fit); !meant.empty())
      hint = "did you mean \"" +
             (dot == std::string::npos ? example_metric(graph_.find(meant))
                                       : meant + stop->metric.substr(dot)) +
             "\"?";
    else if (!fit.empty())
      hint = "for example \"" + example_metric(graph_.find(fit.front())) + "\"";
    diagnostics_.error("SL0440",
                       "run.stop.metric \"" + stop->metric +
                           "\" is no metric of a validation sink or an updater: those alone are "
                           "complete when the rule is applied",
                       stop->place, "run.stop.metric", hint);
  }

 private:
  std::string example_metric(int i) const {
    const auto& names = plan_.nodes[i].spec->metrics;
    return path(i) + "." + (names.empty() ? "metric" : names.front());
  }

  // Whether the node says that it reports this metric; one that declares none may report any.
  void reported(int i, const std::string& metric, const StopRule& stop) {
    const auto& known = node(i).spec->metrics;
    const auto fits = [&](const std::string& name) {
      return name.ends_with('*') ? metric.starts_with(name.substr(0, name.size() - 1))
                                 : metric == name;
    };
    if (known.empty() || std::any_of(known.begin(), known.end(), fits)) return;
    std::string list;
    for (const auto& name : known) list += (list.empty() ? "\"" : ", \"") + name + "\"";
    const std::string meant = nearest(metric, known);
    diagnostics_.error(
        "SL0441",
        "\"" + path(i) + "\" (" + node(i).spec->name + ") has no metric \"" + metric + "\"",
        stop.place, "run.stop.metric",
        meant.empty() ? "it has " + list : "did you mean \"" + path(i) + "." + meant + "\"?");
  }
};

}  // namespace

void check_stop(const PlanPass& pass) { Stop(pass).run(); }

}  // namespace sluice
