#include "engine/graph/metric_mode.h"

#include <algorithm>

#include "engine/base/lower_is_better.h"

namespace sluice {

std::string mode_of(const Graph& graph, const std::string& metric) {
  const RunSettings& run = graph.run;
  if (metric == run.checkpoint_best && run.checkpoint_mode) return *run.checkpoint_mode;
  if (run.stop && metric == run.stop->metric && run.stop->patience && run.stop->mode)
    return *run.stop->mode;
  const bool less = lower_is_better(metric) ||
                    std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& n) {
                      return metric.starts_with(n.path + ".") && lower_is_better(n.spec->name);
                    });
  return less ? "min" : "max";
}

Json made_with(const Graph& graph, const GraphNode& node) {
  Json params = node.params;
  const std::string& key = node.spec->metric_param;
  if (key.empty() || !node.spec->find_param("mode")) return params;
  const std::string metric = params.value(key, "");
  if (!metric.empty() && params.value("mode", Json()).is_null())
    params["mode"] = mode_of(graph, metric);
  return params;
}

}  // namespace sluice
