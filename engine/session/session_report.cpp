// What a session says of itself: summary.json, profile.json and the node table.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <numeric>

#include "engine/base/machine.h"
#include "engine/base/version.h"
#include "engine/base/warnings.h"
#include "engine/graph/metric_mode.h"
#include "engine/judge/straggler.h"
#include "engine/judge/verdict.h"
#include "engine/plan/device_need.h"
#include "engine/run/registry.h"
#include "engine/session/hand_over.h"
#include "engine/session/isolate.h"
#include "engine/session/not_written.h"
#include "engine/session/precision.h"
#include "engine/session/session.h"
#include "engine/state/checkpoint.h"
#include "engine/state/layered.h"
#include "engine/state/resource.h"
#include "engine/state/stage_costs.h"
#include "engine/state/tensor_device.h"

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

Json samples_json(const Plan& plan, const Scheduler& scheduler) {
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

Json Session::where() const {
  return {{"device", find_device() ? find_device()->name() : "cpu"}, {"devices", devices_}};
}

Json Session::summary(const Outcome& outcome) const {
  std::lock_guard lock(mutex_);
  Json metrics = Json::object();
  for (const auto& [name, m] : metrics_)
    metrics[name] = {{"last", m.last},
                     {"best", m.best},
                     {"mode", mode_of(*graph_, name)},
                     {"epoch", m.epoch},
                     {"best_epoch", m.best_epoch}};
  const auto digest = [&] {
    try {
      const bool stalled = outcome.status == Outcome::Status::stalled;
      return stalled || resources_->networks().empty() ? Json() : Json(weights_sha256(weights()));
    } catch (const std::exception&) {
      if (outcome.status != Outcome::Status::failed) throw;
      return Json();  // of a device that failed: why is said, and must not be lost for this
    }
  };
  Json samples = samples_json(*plan_, *scheduler_);
  for (std::size_t r = 1; r < of_others_.size(); ++r)
    for (const auto& [what, n] : of_others_[r]["samples"].items())
      samples[what] = samples.value(what, std::uint64_t{0}) + n.get<std::uint64_t>();
  // Without its last checkpoint nothing is left to go on from.
  const char* status = not_saved_.contains("last") ? name_of(Outcome::Status::failed)
                       : stopped_by_rule_          ? "stopped"
                                                   : name_of(outcome.status);
  Json j = {{"status", status},
            {"epochs", epochs_done_},
            {"steps", steps_},
            {"wall_s", scheduler_->wall_s()},
            {"metrics", metrics},
            {"samples", samples},
            {"weights_sha256", digest()},
            {"graph_sha256", sha256_of(graph_text())},
            {"precision", precisions(*graph_)},
            {"seed", graph_->run.seed},
            {"threads", threads_},
            {"step_threads", step_threads_},
            {"versions", {{"sluice", version}, {"torch", TORCH_VERSION}}}};
  if (const auto& r = recorded_)
    j["cuda_graphs"][r->updater] = r->why_not.empty()
                                       ? Json{{"recorded", r->recorded}, {"repeated", r->repeated}}
                                       : Json{{"why_not", r->why_not}};
  j.update(where());
  if (shards() > 1) j["shards"] = shards();
  if (!ranks_->alone())
    j["world"] = {{"processes", ranks_->world.size}, {"launcher", ranks_->world.launcher}};
  if (!out_dir_.empty()) j["folder"] = out_dir_.string();
  auto all_warnings = warnings();
  for (const auto& [name, why] : not_saved_) all_warnings.push_back(not_written(name, why));
  if (!all_warnings.empty()) j["warnings"] = all_warnings;
  if (const auto last = not_saved_.find("last"); last != not_saved_.end())
    j["error"] = not_written("last", last->second);
  if (outcome.status == Outcome::Status::failed) j["error"] = outcome.failure.str();
  if (outcome.status == Outcome::Status::stalled) j["error"] = outcome.stall;
  return j;
}

Figures Session::figures() const {
  auto now = scheduler_->readings();
  if (options_.guest) options_.guest->to->measure(now.back(), scheduler_->began_ns());
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

// Where the time of the run went: seconds of bodies, and the share of the run in which the training
// region works (MLPerf Storage's accelerator utilisation, AU).
static Json shares_json(const Plan& plan, const Figures& f) {
  std::map<std::string, double> seconds;
  double region = 0;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& n = plan.nodes[i];
    const double s = f.nodes[i].busy_s;
    const PlanStream& stream = plan.streams[static_cast<std::size_t>(n.stream)];
    if (n.lane != LaneKind::step) {
      seconds["data"] += s;
    } else if (stream.takes_turns && !stream.trains) {
      seconds["validation"] += s;
    } else {
      region += s;
      const Access access = n.spec->access;
      const bool is_loss = n.spec->name.ends_with("loss");
      seconds[access == Access::update ? "backward_and_update" : is_loss ? "loss" : "forward"] += s;
    }
  }
  Json j = {{"seconds", seconds}};
  if (f.wall_s > 0 && region > 0) j["au"] = std::min(1.0, region / f.wall_s);
  return j;
}

// Who waits for a network's turn or for the training region, and for what share of the time.
static Json networks_json(const Plan& plan, const Figures& f) {
  Json all = Json::object();
  if (!plan.turns) return all;
  Json waits = Json::object();
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    if (plan.nodes[i].takes_turns && plan.nodes[i].gate)
      waits[plan.nodes[i].path()] = f.nodes[i].blocked;
  for (const auto& name : plan.turns->networks) all[name] = waits;
  return all;
}

// Of each network in parts.
static Json stages_json(const StageCosts& costs) {
  Json stages = Json::array();
  for (const StageCosts::Stage& s : costs.stages)
    stages.push_back({{"first", s.first},
                      {"last", s.last},
                      {"forward_ms", 1e3 * s.forward},
                      {"backward_ms", 1e3 * s.backward},
                      {"kept_bytes", s.kept},
                      {"peak_bytes", s.peak},
                      {"bytes_in", s.comes}});
  Json j = {{"stages", stages},
            {"micro_batches", costs.micro_batches},
            {"expected_bubble", costs.expected_bubble},
            {"balanced", costs.balanced}};
  if (costs.bubble >= 0) j["bubble"] = costs.bubble;
  return j;
}
static Json stages_json(const Resources& resources) {
  Json all = Json::object();
  for (const auto& [name, network] : resources.networks())
    if (const auto* staged = dynamic_cast<const Staged*>(network.get()))
      if (const StageCosts costs = staged->stage_costs(); !costs.stages.empty())
        all[name] = stages_json(costs);
  return all;
}

// Of one forward pass, the multiply-adds of one of its samples; by network.
static Json arithmetic_json(const Resources& resources) {
  Json all = Json::object();
  for (const auto& [name, network] : resources.networks())
    if (const Work work = network->last_work(); work.multiply_adds > 0)
      all[name] = {{"sample_multiply_adds", work.multiply_adds},
                   {"tensor_core_eligible", work.on_tensor_cores / work.multiply_adds},
                   {"step_bytes", work.step_bytes},
                   {"step_bytes_all_kept", work.step_bytes_kept},
                   {"window_bytes", work.window_bytes},
                   {"forward_again", work.forward_again},
                   {"bytes_moved", work.bytes_moved}};
  return all;
}

static Json held_json(const CacheStore::Held& h) {
  return {{"entries", h.entries}, {"bytes", h.bytes},     {"hits", h.hits},
          {"misses", h.misses},   {"refused", h.refused}, {"damaged", h.damaged}};
}

// Of each network that keeps account of its layers, in their order.
static Json layers_json(const Resources& resources) {
  Json all = Json::object();
  for (const auto& [name, network] : resources.networks()) {
    const auto* layered = dynamic_cast<const Layered*>(network.get());
    if (!layered) continue;
    Json layers = Json::array();
    for (const LayerCost& c : layered->layer_costs())
      layers.push_back({{"name", c.name},
                        {"kind", c.kind},
                        {"forward_ms", 1e3 * c.forward},
                        {"backward_ms", 1e3 * c.backward},
                        {"kept_mb", 1e-6 * c.kept}});
    if (!layers.empty()) all[name] = std::move(layers);
  }
  return all;
}

// Of the steps themselves, apart from the passes; sums over all steps.
static Json steps_json(const StepUse& u) {
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  return {{"steps", u.steps.load()},      {"header_ms", ms(u.header_ns)},
          {"sum_ms", ms(u.sum_ns)},       {"wire_ms", ms(u.wire_ns)},
          {"update_ms", ms(u.update_ns)}, {"sent_bytes", u.bytes.load()},
          {"values", u.values.load()},    {"moments", u.moments.load()}};
}

// What all ranks' bodies of a node took, and who is waited for.
static void add_ranks(Json& first, const std::vector<Json>& of_others) {
  std::vector<Json> profiles{first};
  for (std::size_t r = 1; r < of_others.size(); ++r) profiles.push_back(of_others[r]["profile"]);
  first["straggler"] = straggler(profiles);
  for (auto& [path, node] : first["nodes"].items()) {
    std::vector<double> busy;
    for (const Json& p : profiles)
      busy.push_back(p["nodes"].value(path, Json::object()).value("busy_s", 0.0));
    const auto most = std::ranges::max_element(busy);
    node["ranks"] = {
        {"busy_s", busy},
        {"mean", std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(busy.size())},
        {"max", *most},
        {"max_rank", most - busy.begin()}};
  }
}

Json Session::profile(bool ended) const {
  const Figures f = figures();
  Json j = f.to_json(*plan_);
  for (std::size_t i = 0; i < plan_->nodes.size(); ++i) {
    Json& n = j["nodes"][plan_->nodes[i].path()];
    n["slowest"] = slowest_json(scheduler_->counters(static_cast<int>(i)));
    if (const CacheStore* store = nodes_[i]->store()) n["cache"] = held_json(store->held());
    if (!ended) continue;  // the ledger is the stations' own until then
    const Ledger& l = scheduler_->ledger(static_cast<int>(i));
    n["in"] = l.in;
    n["out"] = l.out;
    n["skipped"] = l.skipped;
    n["dropped_last"] = l.dropped_last;
  }
  const Verdict verdict = judge(*plan_, f);
  j["verdict"] = verdict.text;
  j["change"] = verdict.change;
  j["rate"] = verdict.rate;
  j["shares"] = shares_json(*plan_, f);
  j["networks"] = networks_json(*plan_, f);
  if (ended) j["arithmetic"] = arithmetic_json(*resources_);
  if (ended) j["layers"] = layers_json(*resources_);
  if (const Json stages = ended ? stages_json(*resources_) : Json(); !stages.empty())
    j["stages"] = stages;
  if (ranks_->use.steps > 0) j["step"] = steps_json(ranks_->use);
  j["process"] = (ended ? end_ : ProcessUse::now()).since(begin_);
  j["gpus"] = gpus_->to_json();
  if (const auto device = find_device()) {
    const DeviceNeed need = device_need(*plan_);
    j["device_mb"] = device->peak_bytes() * 1e-6;
    j["device_plan"] = {{"in_flight_mb", static_cast<double>(need.flying()) * 1e-6},
                        {"exact", need.exact}};
    // Without a bound where neither the graph nor the device says one.
    if (need.unbounded == 0 || device_share_)
      j["device_plan"]["caches_mb"] =
          static_cast<double>(need.budgets + need.unbounded * device_share_.value_or(0)) * 1e-6;
  }
  j["devices"] = devices_;
  std::lock_guard lock(mutex_);
  j["epoch_ends_s"] = epoch_ends_s_;
  if (!ranks_->alone()) j["host"] = host_name();
  if (ended && !of_others_.empty()) add_ranks(j, of_others_);
  return j;
}

Json Session::isolate() const {
  Json all = Json::object();
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    if (!captured_[i]) continue;
    Json rates = Json::object();
    const int cores = std::max(1, thread_counts().cores);
    for (int threads = 1; threads <= cores; threads *= 2)
      rates[std::to_string(threads)] = captured_[i]->rate(threads, 0.25, [] {
        at::get_num_threads();
        at::set_num_threads(1);
        at::GradMode::set_enabled(false);
      });
    all[plan_->nodes[i].path()] = std::move(rates);
  }
  return all;
}

}  // namespace sluice
