// What a session says of itself: summary.json, profile.json and the node table.
#include <torch/version.h>

#include <algorithm>
#include <numeric>

#include "engine/registry.h"
#include "engine/version.h"
#include "tools/runtime/session.h"

namespace sluice {

static const char* name_of(Outcome::Status status) {
  switch (status) {
    case Outcome::Status::done:
      return "done";
    case Outcome::Status::cut:
      return "cut";
    case Outcome::Status::failed:
      return "failed";
    default:
      return "stalled";
  }
}

// Samples over the whole graph: every source's and every sink's, and where the others went.
static Json samples_json(const Plan& plan, const Scheduler& scheduler) {
  std::uint64_t emitted = 0, delivered = 0;
  std::map<std::string, std::uint64_t> lost{
      {"filtered", 0}, {"quarantined", 0}, {"dropped_last", 0}, {"discarded", 0}};
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const Ledger& l = scheduler.ledger(static_cast<int>(i));
    emitted += l.emitted;
    delivered += l.delivered;
    for (const auto& [reason, n] : l.lost) lost[reason] += n;
  }
  Json j = {{"emitted", emitted}, {"delivered", delivered}};
  for (const auto& [reason, n] : lost) j[reason] = n;
  return j;
}

Json Session::summary(const Outcome& outcome) const {
  std::lock_guard lock(mutex_);
  Json metrics = Json::object();
  for (const auto& [name, m] : metrics_)
    metrics[name] = {
        {"last", m.last}, {"best", m.best}, {"epoch", m.epoch}, {"best_epoch", m.best_epoch}};
  Json j = {
      {"status", stopped_by_rule_ ? "stopped" : name_of(outcome.status)},
      {"epochs", epochs_done_},
      {"steps", steps_},
      {"wall_s", scheduler_->wall_s()},
      {"metrics", metrics},
      {"samples", samples_json(*plan_, *scheduler_)},
      {"weights_sha256", resources_->networks().empty() ? Json() : Json(weights_sha256(weights()))},
      {"seed", graph_->run.seed},
      {"threads", threads_},
      {"step_threads", step_threads_},
      {"device", "cpu"},
      {"versions", {{"sluice", version}, {"torch", TORCH_VERSION}}}};
  if (outcome.status == Outcome::Status::failed) j["error"] = outcome.failure.str();
  if (outcome.status == Outcome::Status::stalled) j["error"] = outcome.stall;
  return j;
}

Json Session::profile() const {
  const double wall = std::max(scheduler_->wall_s(), 1e-9);
  Json nodes = Json::object();
  for (std::size_t i = 0; i < plan_->nodes.size(); ++i) {
    const PlanNode& n = plan_->nodes[i];
    const Counters& c = scheduler_->counters(static_cast<int>(i));
    const Ledger& l = scheduler_->ledger(static_cast<int>(i));
    const double busy_s = static_cast<double>(c.busy_ns.load()) * 1e-9;
    const int slots = n.concurrency > 0          ? n.concurrency
                      : n.ordered                ? 1
                      : n.lane == LaneKind::step ? 1
                                                 : threads_;
    Json j = {{"type", n.spec->name},
              {"items", l.fired},
              {"passed", l.passed},
              {"rate", static_cast<double>(l.fired + l.passed) / wall},
              {"busy", busy_s / wall / slots},
              {"busy_s", busy_s},
              {"starved", static_cast<double>(c.starved_ns) * 1e-9 / wall},
              {"blocked", static_cast<double>(c.blocked_ns) * 1e-9 / wall},
              {"p50_ms", static_cast<double>(c.durations.quantile(0.5)) * 1e-6},
              {"p99_ms", static_cast<double>(c.durations.quantile(0.99)) * 1e-6},
              {"queue_max", c.queue_max},
              {"in", l.in},
              {"out", l.out},
              {"skipped", l.skipped},
              {"dropped_last", l.dropped_last}};
    if (n.credits > 0)
      j["credits"] = {{"total", n.credits},
                      {"most_out", scheduler_->most_credits_out(static_cast<int>(i))}};
    nodes[n.path()] = std::move(j);
  }
  return {{"wall_s", scheduler_->wall_s()}, {"threads", threads_}, {"nodes", nodes}};
}

}  // namespace sluice
