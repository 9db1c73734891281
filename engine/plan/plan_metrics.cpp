// Metrics that something waits for: whether they are known when it looks at them.
#include <algorithm>

#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Metrics : PlanPass {
 public:
  explicit Metrics(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
    if (const auto& stop = graph_.run.stop) check({stop->metric, stop->place, "run.stop.metric"});
    if (const RunSettings& r = graph_.run; !r.checkpoint_best.empty())
      check({r.checkpoint_best, r.checkpoint_best_place, "run.checkpoint.best"});
    for (int i = 0; i < size(); ++i) {
      const std::string& key = node(i).spec->metric_param;
      const auto metric = param<std::string>(node(i), key, "");
      if (metric.empty()) continue;
      const std::string at = "nodes." + path(i) + "." + key;
      check({metric, node(i).graph->place.child(key), at});
    }
  }

 private:
  struct Wanted {
    std::string metric;
    Place place;
    std::string path;
  };

  // It must be known between two turns, whatever the timing.
  void check(const Wanted& wanted) {
    const auto dot = wanted.metric.rfind('.');
    const std::string name = wanted.metric.substr(0, dot);
    const int i = dot == std::string::npos ? -1 : graph_.find(name);
    std::vector<std::string> fit;
    if (plan_.turns) {
      for (int s : plan_.turns->sinks)
        if (const Spec& spec = *plan_.nodes[s].spec;
            spec.family.empty() || spec.family == "metric" || !spec.metrics.empty())
          fit.push_back(path(s));
      for (int u : plan_.turns->updaters) fit.push_back(path(u));
    }
    if (i >= 0 && std::find(fit.begin(), fit.end(), name) != fit.end()) {
      if (!known_to_all(i)) return of_first(i, wanted);
      return reported(i, wanted.metric.substr(dot + 1), wanted);
    }
    std::string hint;
    if (const std::string meant = nearest(name, fit); !meant.empty())
      hint = "did you mean \"" +
             (dot == std::string::npos ? example_metric(graph_.find(meant))
                                       : meant + wanted.metric.substr(dot)) +
             "\"?";
    else if (!fit.empty())
      hint = "for example \"" + example_metric(graph_.find(fit.front())) + "\"";
    diagnostics_.error("SL0440",
                       wanted.path + " \"" + wanted.metric +
                           "\" is no metric of a validation sink or an updater: those alone are "
                           "complete between two training epochs",
                       wanted.place, wanted.path, hint);
  }

  // A sink that cannot merge what several processes saw is the first one's alone.
  bool known_to_all(int i) const {
    const Spec& s = *plan_.nodes[i].spec;
    return options_.processes == 1 || s.merging || s.access == Access::update;
  }
  void of_first(int i, const Wanted& wanted) {
    diagnostics_.error("SL0440",
                       wanted.path + " \"" + wanted.metric + "\": of several processes the first " +
                           "alone computes \"" + path(i) + "\" (" + node(i).spec->name +
                           "), so the others would not know it",
                       wanted.place, wanted.path, "take another metric, or run it as one process");
  }

  std::string example_metric(int i) const {
    const auto& names = plan_.nodes[i].spec->metrics;
    return path(i) + "." + (names.empty() ? "metric" : names.front());
  }

  // Whether the node says that it reports this metric; one that declares none may report any.
  void reported(int i, const std::string& metric, const Wanted& wanted) {
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
        wanted.place, wanted.path,
        meant.empty() ? "it has " + list : "did you mean \"" + path(i) + "." + meant + "\"?");
  }
};

}  // namespace

void check_metrics(const PlanPass& pass) { Metrics(pass).run(); }

}  // namespace sluice
