// What a session says of itself: summary.json, profile.json and the node table.
#include <torch/version.h>

#include "engine/checkpoint.h"
#include "engine/registry.h"
#include "engine/verdict.h"
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
      {"graph_sha256", sha256_of(graph_text())},
      {"seed", graph_->run.seed},
      {"threads", threads_},
      {"step_threads", step_threads_},
      {"device", "cpu"},
      {"versions", {{"sluice", version}, {"torch", TORCH_VERSION}}}};
  if (outcome.status == Outcome::Status::failed) j["error"] = outcome.failure.str();
  if (outcome.status == Outcome::Status::stalled) j["error"] = outcome.stall;
  return j;
}

Figures Session::figures() const {
  const auto now = scheduler_->readings();
  std::vector<Reading> begin(now.size());
  for (Reading& r : begin) r.at_ns = scheduler_->began_ns();
  return Figures::between(*plan_, thread_counts(), begin, now);
}

static Json slowest_json(const Counters& counters) {
  Json all = Json::array();
  for (const SlowFiring& s : counters.slowest.sorted())
    all.push_back({{"ms", static_cast<double>(s.ns) * 1e-6},
                   {"sample", s.sample},
                   {"file", s.file},
                   {"stamp", s.stamp.str()}});
  return all;
}

Json Session::profile(bool ended) const {
  const Figures f = figures();
  Json j = f.to_json(*plan_);
  for (std::size_t i = 0; i < plan_->nodes.size(); ++i) {
    Json& n = j["nodes"][plan_->nodes[i].path()];
    n["slowest"] = slowest_json(scheduler_->counters(static_cast<int>(i)));
    if (!ended) continue;  // the ledger is the stations' own until then
    const Ledger& l = scheduler_->ledger(static_cast<int>(i));
    n["in"] = l.in;
    n["out"] = l.out;
    n["skipped"] = l.skipped;
    n["dropped_last"] = l.dropped_last;
  }
  j["verdict"] = judge(*plan_, f).text;
  return j;
}

}  // namespace sluice
