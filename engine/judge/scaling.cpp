#include "engine/judge/scaling.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/group/ordered_sum.h"
#include "engine/group/shards.h"
#include "engine/judge/forecast.h"

namespace sluice {
namespace {

double of(std::int64_t n) { return static_cast<double>(n); }

// The expected largest of n draws of a normal distribution, in standard deviations: Blom's (1958)
// approximation by the quantile at (n - 3/8) / (n + 1/4), found by bisection.
double expected_most(int n) {
  if (n <= 1) return 0;
  const double share = (n - 0.375) / (n + 0.25);
  double low = 0, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return low;
}

// ---- the sum ------------------------------------------------------------------------------------

struct Sum {
  double sum_s = 0, header_s = 0, sent = 0;
};

Sum sum_of(const Training& training, const StepCosts& costs, const Cluster& c, int ranks) {
  Sum s;
  if (ranks == 1) return s;
  const int here = std::min(c.node, ranks), elsewhere = ranks - here;
  // Cores that pack and add for several ranks at once.
  const double crowd = std::max(1.0, static_cast<double>(here) / c.cores);
  const double piece = of(costs.values) / ranks * (training.halves ? 2 : 4);
  double all = 0, most = 0, machine = 0, machine_most = 0;
  for (int r = 0; r < ranks; ++r) {
    const double mine = of(sums_alone(r, ranks, training.shards));
    all += mine;
    most = std::max(most, mine);
    machine = (r % here == 0 ? 0 : machine) + mine;
    machine_most = std::max(machine_most, machine);
  }
  const auto moved = [&](double inside, double between) {
    return std::max(inside / c.inside, between / c.link) + (ranks - 1) * c.latency;
  };
  // What goes out of a machine, and what comes into it: everybody else's sums of its pieces.
  const double out = machine_most * elsewhere, in = (all - machine_most) * here;
  const double exchange = moved(most * (here - 1) * piece, std::max(out, in) * piece);
  const double gather = moved((here - 1) * piece, static_cast<double>(here) * elsewhere * piece);
  // Values are packed for every rank, added (two are read, one is written), and laid out again.
  const double whole = piece * ranks;
  const double touched = 2 * most * whole + 3 * all * piece + 4 * whole;
  s.sum_s = exchange + gather + touched / c.memory * crowd;
  s.header_s = (ranks - 1) * c.latency;
  s.sent = (ranks - 1) * (most + 1) * piece;
  return s;
}

// Bytes that a rank's sum keeps: partial sums, what is sent, what comes, and the whole.
double sum_bytes(const Training& training, const StepCosts& costs, int ranks) {
  std::int64_t most = 0, all = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t alone = sums_alone(r, ranks, training.shards);
    most = std::max(most, alone);
    all += alone;
  }
  const auto mine = static_cast<std::uint64_t>((training.shards + ranks - 1) / ranks);
  const double values = 4 * of(costs.values), wire = values * (training.halves ? 0.5 : 1);
  const double leaves = training.shards == 1 ? 0 : std::bit_width(mine) * values;
  if (ranks == 1) return leaves;
  return leaves + of(most) * wire + of(all) / ranks * values + values;
}

std::string limit_of(const Scaling& s, double equal_share) {
  const std::pair<double, const char*> all[] = {
      {s.passes_s - equal_share, "uneven shards or cores"},
      {s.update_s, "the update"},
      {s.wait_s, "the slowest rank"},
      {s.header_s + s.sum_s, "the network"}};
  const double region = s.passes_s + s.update_s + s.wait_s + s.header_s + s.sum_s;
  if (s.data_s > region && s.data_s >= s.cores_s) return "data";
  if (s.cores_s > 1.05 * region) return "the cores, which loading shares";
  const auto& most = *std::max_element(std::begin(all), std::end(all));
  return most.first > 0.05 * s.step_s ? most.second : "passes";
}

}  // namespace

// ---- what was measured --------------------------------------------------------------------------

StepCosts StepCosts::of(const Plan& plan, const Json& profile, Threads threads) {
  const Figures figures = Figures::from_json(plan, profile);
  StepCosts c;
  const int stream = pace_stream(plan);
  const double items = pace(plan, figures) * figures.wall_s;
  const Json step = profile.value("step", Json::object());
  const double steps = step.value("steps", 0.0);
  if (stream < 0 || items <= 0 || steps <= 0) return c;
  double region = 0, cores = 0, updaters = 0;
  const NodeFigures* slow = nullptr;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const NodeFigures& n = figures.nodes[i];
    if (plan.nodes[i].stream != stream) continue;
    if (plan.nodes[i].lane != LaneKind::step) {
      c.item_cpu_s += n.busy_s * n.cpu / items;
      continue;
    }
    region += n.busy_s;
    cores += n.busy_s * n.cpu;
    c.on_device |= n.host_s > 0;
    const bool updates = plan.nodes[i].spec->access == Access::update;
    updaters += updates && plan.nodes[i].spec->follows_param.empty();
    if (!updates && (!slow || n.busy_s > slow->busy_s)) slow = &n;
  }
  const double besides = 1e-3 * (step.value("update_ms", 0.0) + step.value("sum_ms", 0.0) +
                                 step.value("header_ms", 0.0));
  c.item_s = std::max(0.0, region - besides) / items;
  // Each updater counts its steps.
  c.update_s = 1e-3 * step.value("update_ms", 0.0) * std::max(1.0, updaters) / steps;
  c.step_cores = c.on_device ? 0 : threads.step;
  // A normal distribution has a twentieth above 1.645 standard deviations.
  if (slow && slow->p50_ms > 0)
    c.spread = std::max(0.0, slow->p95_ms - slow->p50_ms) / 1.645 / slow->p50_ms;
  c.memory_mb = profile.value("/process/most_mb"_json_pointer, 0.0);
  c.values = step.value("values", std::int64_t{0});
  c.moments = step.value("moments", std::int64_t{0});
  // The data side alone: a step that costs nothing, no validation between.
  PlanCosts costs = PlanCosts::of(plan, plan, figures);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    if (plan.nodes[i].lane == LaneKind::step || plan.nodes[i].stream != stream)
      costs.nodes[i].service_s = 0;
  std::fill(costs.epoch.begin(), costs.epoch.end(), -1);
  c.items_a_s = forecast(plan, threads, costs);
  return c;
}

// ---- what is to be ------------------------------------------------------------------------------

Scaling Scaling::of(const Training& training, const StepCosts& costs, const Cluster& cluster,
                    int ranks) {
  Scaling s;
  s.ranks = ranks;
  s.shards = training.shards;
  std::int64_t items = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t first = first_shard(r, ranks, s.shards);
    const std::int64_t last = first_shard(r + 1, ranks, s.shards);
    s.busiest = std::max(r == 0 ? 0 : s.busiest, last - first);
    items = std::max(items, training.items * last / s.shards - training.items * first / s.shards);
  }
  const int here = std::min(cluster.node, ranks);
  const double crowd = std::max(1.0, here * costs.step_cores / cluster.cores);
  s.passes_s = sluice::of(items) * costs.item_s * crowd;
  s.update_s = costs.update_s * crowd;
  const double spread = costs.spread / std::sqrt(sluice::of(s.busiest));
  s.wait_s = expected_most(ranks) * spread * s.passes_s;
  const Sum sum = sum_of(training, costs, cluster, ranks);
  s.header_s = sum.header_s;
  s.sum_s = sum.sum_s;
  s.sent = sum.sent;
  const double region = s.passes_s + s.update_s + s.wait_s + s.header_s + s.sum_s;
  // All work of a rank's cores: where ranks share a machine's, loading waits for the region too.
  const double cores_s = costs.step_cores * (sluice::of(items) * costs.item_s + costs.update_s) +
                         costs.item_cpu_s * sluice::of(items);
  s.data_s = costs.items_a_s > 0 ? sluice::of(items) / costs.items_a_s : 0;
  s.cores_s = here * cores_s / cluster.cores;
  s.step_s = std::max({region, s.data_s, s.cores_s});
  s.au = s.step_s > 0 ? (s.passes_s + s.update_s) / s.step_s : 0;
  s.limit = limit_of(s, sluice::of(training.items) / ranks * costs.item_s);
  s.memory_mb = costs.memory_mb + 1e-6 * sum_bytes(training, costs, ranks);
  if (training.epoch > 0) {
    const double exact = sluice::of(training.epoch) / sluice::of(training.items);
    s.steps = std::ceil(exact);
    s.lost = 1 - exact / s.steps;
  }
  s.efficiency = 1;
  if (ranks > 1 && s.step_s > 0)
    s.efficiency = of(training, costs, cluster, 1).step_s / (ranks * s.step_s);
  return s;
}

Json Scaling::to_json() const {
  Json j = {{"ranks", ranks},
            {"shards", shards},
            {"busiest_shards", busiest},
            {"step_ms", 1e3 * step_s},
            {"passes_ms", 1e3 * passes_s},
            {"update_ms", 1e3 * update_s},
            {"wait_ms", 1e3 * wait_s},
            {"header_ms", 1e3 * header_s},
            {"exposed_ms", 1e3 * sum_s},
            {"data_ms", 1e3 * data_s},
            {"au", au},
            {"efficiency", efficiency},
            {"memory_mb", memory_mb},
            {"sent_bytes", sent},
            {"limit", limit}};
  if (steps > 0) j.update({{"steps_an_epoch", steps}, {"lost_to_last_batch", lost}});
  return j;
}

}  // namespace sluice
