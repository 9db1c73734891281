// What a session does by its metrics: when it ends, and which checkpoint is the best.
#include "engine/base/warnings.h"
#include "engine/graph/metric_mode.h"
#include "engine/session/session.h"

namespace sluice {

// Whether the metric whose best epoch is kept has a value of the epoch that ends, better than all
// before it. One that is measured more seldom says nothing of the weights since.
bool Session::is_best(const Turn& ended) {
  const RunSettings& run = graph_->run;
  std::lock_guard lock(mutex_);
  const auto it = metrics_.find(run.checkpoint_best);
  if (it == metrics_.end() || it->second.epoch != ended.train_epoch) return false;
  const double value = it->second.last;
  if (!improves(mode_of(*graph_, run.checkpoint_best), value, best_kept_)) return false;
  best_kept_ = value;
  return true;
}

static StopRule with_mode(StopRule rule, const Graph& graph) {
  if (!rule.mode) rule.mode = mode_of(graph, rule.metric);
  return rule;
}

bool Session::stop_rule_met() {
  if (!graph_->run.stop) return false;
  const StopRule rule = with_mode(*graph_->run.stop, *graph_);
  std::lock_guard lock(mutex_);
  auto it = metrics_.find(rule.metric);
  if (it == metrics_.end()) return false;
  return stopping_.met(rule, it->second.last, it->second.epoch);
}

// "dice.mean", for rules to name; null where there is no such rule. What was seen of another
// metric, or of one whose other values were better, is nothing to compare with.
Json Session::stops_by() const {
  if (!graph_->run.stop) return nullptr;
  const StopRule rule = with_mode(*graph_->run.stop, *graph_);
  return {rule.metric, *rule.mode};
}
Json Session::keeps_best_by() const {
  const std::string& metric = graph_->run.checkpoint_best;
  return metric.empty() ? Json() : Json{metric, mode_of(*graph_, metric)};
}

// A metric that its node never reports, such as a class that no label has: the rule waits for ever.
// Said once, when the node has reported others.
void Session::warn_of_missing_metrics() {
  if (missing_is_told_ || ranks_->world.rank > 0) return;
  std::lock_guard lock(mutex_);
  const auto check = [&](const std::string& setting, const std::string& metric) {
    if (metric.empty() || metrics_.contains(metric)) return;
    const std::string node = metric.substr(0, metric.rfind('.') + 1);
    std::string others;
    for (const auto& [name, unused] : metrics_)
      if (name.starts_with(node)) others += (others.empty() ? "" : ", ") + name;
    if (others.empty()) return;
    warn(setting + ": there is no \"" + metric + "\" after an epoch that reports " + others +
         "; while none comes, nothing is decided by it");
    missing_is_told_ = true;
  };
  if (graph_->run.stop) check("run.stop.metric", graph_->run.stop->metric);
  check("run.checkpoint.best", graph_->run.checkpoint_best);
}

}  // namespace sluice
