#include "engine/judge/figures.h"

#include <algorithm>
#include <utility>

namespace sluice {

int Threads::on(LaneKind lane) const {
  if (lane == LaneKind::compute) return std::max(1, compute);
  if (lane == LaneKind::io) return std::max(1, io);
  return 1;
}

int Threads::slots(const PlanNode& node) const {
  const int limit = node.ordered || node.is_source() ? 1 : node.concurrency;
  return limit > 0 ? std::min(limit, on(node.lane)) : on(node.lane);
}

// ---- together -----------------------------------------------------------------------------------

static std::vector<int> others_of(const Plan& plan, int node, std::uint64_t positions) {
  std::vector<int> others;
  const int run = plan.nodes[static_cast<std::size_t>(node)].run;
  if (run < 0) return others;
  const auto& nodes = plan.runs[static_cast<std::size_t>(run)].nodes;
  for (std::size_t k = 0; k < nodes.size() && k < 64; ++k)
    if ((positions >> k & 1) && nodes[k] != node) others.push_back(nodes[k]);
  return others;
}

static constexpr double a_twentieth = 0.05;

std::vector<int> done_with(const Plan& plan, const Figures& figures, int node) {
  const NodeFigures& n = figures.nodes[static_cast<std::size_t>(node)];
  const int run = plan.nodes[static_cast<std::size_t>(node)].run;
  if (run < 0 || n.with.empty() || n.shared_s < a_twentieth * n.busy_s) return {node};
  std::vector<int> all;
  for (int i : plan.runs[static_cast<std::size_t>(run)].nodes)
    if (i == node || std::find(n.with.begin(), n.with.end(), i) != n.with.end()) all.push_back(i);
  return all;
}

std::string names_done_with(const Plan& plan, const Figures& figures, int node) {
  std::string names;
  for (int i : done_with(plan, figures, node))
    names += (names.empty() ? "" : " + ") + plan.nodes[static_cast<std::size_t>(i)].path();
  return names;
}

int done_in(const Plan& plan, const Figures& figures, int node) {
  const int run = plan.nodes[static_cast<std::size_t>(node)].run;
  if (run < 0) return -1;
  int found = -1;
  double most = 0;
  for (int i : plan.runs[static_cast<std::size_t>(run)].nodes) {
    const NodeFigures& n = figures.nodes[static_cast<std::size_t>(i)];
    const bool here = std::find(n.with.begin(), n.with.end(), node) != n.with.end();
    if (i == node || !here || n.shared_s <= most) continue;
    most = n.shared_s;
    found = i;
  }
  const double own = figures.nodes[static_cast<std::size_t>(node)].busy_s;
  return own < a_twentieth * most ? found : -1;
}

// ---- making -------------------------------------------------------------------------------------

static double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

Figures Figures::between(const Plan& plan, const Threads& threads,
                         const std::vector<Reading>& before, const std::vector<Reading>& after) {
  Figures f;
  f.threads = threads;
  f.nodes.resize(plan.nodes.size());
  if (after.size() != plan.nodes.size() || before.size() != after.size()) return f;
  if (!after.empty()) f.wall_s = seconds(after.front().at_ns - before.front().at_ns);
  const double wall = std::max(f.wall_s, 1e-9);
  for (std::size_t i = 0; i < after.size(); ++i) {
    const Reading &a = before[i], &b = after[i];
    NodeFigures& n = f.nodes[i];
    n.known = true;
    n.fired = b.fired - a.fired;
    n.passed = b.passed - a.passed;
    n.spared = b.spared - a.spared;
    n.rate = static_cast<double>(n.fired + n.passed) / wall;
    n.busy_s = std::max(0.0, seconds(b.busy_ns - a.busy_ns));
    n.body_s = std::max(0.0, seconds(b.body_ns - a.body_ns));
    n.shared_s = std::min(n.busy_s, seconds(b.shared_ns - a.shared_ns));
    n.with = others_of(plan, static_cast<int>(i), b.with);
    if (b.device_ns > a.device_ns)
      n.host_s = std::exchange(n.busy_s, seconds(b.device_ns - a.device_ns));
    if (n.host_s > 0) n.body_s = n.busy_s;
    if (n.host_s > 0 && !n.with.empty()) n.shared_s = n.busy_s;  // a body as a whole
    n.busy = std::min(1.0, n.busy_s / wall / threads.slots(plan.nodes[i]));
    n.starved = std::clamp(seconds(b.starved_ns - a.starved_ns) / wall, 0.0, 1.0);
    n.blocked = std::clamp(seconds(b.blocked_ns - a.blocked_ns) / wall, 0.0, 1.0);
    n.p50_ms = seconds(b.p50_ns) * 1e3;
    n.p95_ms = seconds(b.p95_ns) * 1e3;
    n.p99_ms = seconds(b.p99_ns) * 1e3;
    n.clocked = b.cpu_of_ns > a.cpu_of_ns;
    if (n.clocked)
      n.cpu = std::min(1.0, static_cast<double>(b.cpu_ns - a.cpu_ns) /
                                static_cast<double>(b.cpu_of_ns - a.cpu_of_ns));
    if (n.host_s > 0) n.cpu *= std::min(1.0, n.host_s / n.busy_s);
    if (b.bytes_of > a.bytes_of)
      n.mb = static_cast<double>(b.bytes - a.bytes) / static_cast<double>(b.bytes_of - a.bytes_of) /
             1e6;
    n.mb_most = static_cast<double>(b.most_bytes) * 1e-6;
    n.out = b.out - a.out;
    n.lost = b.lost - a.lost;
    n.epoch_size = b.epoch_size;
    n.queue = b.queue;
    n.queue_max = b.queue_max;
    n.running = b.running;
    n.credits_out = b.credits_out;
    n.credits_most = b.most_credits_out;
  }
  // What a node left to the last of its run used the cores as that one's bodies do.
  for (const PlanRun& run : plan.runs)
    for (int i : run.nodes) {
      const auto last = static_cast<std::size_t>(run.nodes.back());
      const auto at = static_cast<std::size_t>(i);
      if (f.nodes[at].clocked || !f.nodes[last].clocked) continue;
      f.nodes[at].cpu = f.nodes[last].cpu;
      f.nodes[at].clocked = f.nodes[at].busy_s > 0;
    }
  return f;
}

// ---- JSON ---------------------------------------------------------------------------------------

template <class T>
static void take(const Json& j, const char* key, T& value) {
  if (const auto it = j.find(key); it != j.end() && it->is_number()) value = it->get<T>();
}

// Calls fn(name, figure) for what every measured node has.
template <class Node, class Fn>
static void each_figure(Node& n, Fn&& fn) {
  fn("items", n.fired);
  fn("passed", n.passed);
  fn("rate", n.rate);
  fn("busy", n.busy);
  fn("busy_s", n.busy_s);
  fn("starved", n.starved);
  fn("blocked", n.blocked);
  fn("p50_ms", n.p50_ms);
  fn("p95_ms", n.p95_ms);
  fn("p99_ms", n.p99_ms);
  fn("mb", n.mb);
  fn("mb_most", n.mb_most);
  fn("sent", n.out);
  fn("lost", n.lost);
  fn("epoch_size", n.epoch_size);
  fn("queue", n.queue);
  fn("queue_max", n.queue_max);
  fn("running", n.running);
}

Figures Figures::from_json(const Plan& plan, const Json& profile) {
  Figures f;
  f.nodes.resize(plan.nodes.size());
  if (!profile.is_object()) return f;
  take(profile, "wall_s", f.wall_s);
  take(profile, "threads", f.threads.compute);
  f.threads.io = std::max(2, f.threads.compute);
  take(profile, "io_threads", f.threads.io);
  take(profile, "cores", f.threads.cores);
  take(profile, "step_threads", f.threads.step);
  const auto nodes = profile.find("nodes");
  if (nodes == profile.end() || !nodes->is_object()) return f;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const auto it = nodes->find(plan.nodes[i].path());
    if (it == nodes->end() || !it->is_object()) continue;
    if (it->value("type", Json(plan.nodes[i].spec->name)) != plan.nodes[i].spec->name) continue;
    NodeFigures& n = f.nodes[i];
    n.known = true;
    take(*it, "busy", n.busy);
    n.busy_s = n.busy * f.wall_s * f.threads.slots(plan.nodes[i]);
    each_figure(n, [&](const char* key, auto& value) { take(*it, key, value); });
    take(*it, "spared", n.spared);
    take(*it, "host_s", n.host_s);
    n.body_s = n.busy_s;
    take(*it, "body_s", n.body_s);
    take(*it, "shared_s", n.shared_s);
    if (const auto with = it->find("done_with"); with != it->end() && with->is_array())
      for (const Json& path : *with)
        for (std::size_t k = 0; path.is_string() && k < plan.nodes.size(); ++k)
          if (plan.nodes[k].path() == path.get_ref<const std::string&>())
            n.with.push_back(static_cast<int>(k));
    take(*it, "cpu", n.cpu);
    n.clocked = it->contains("cpu");
    if (const auto c = it->find("credits"); c != it->end() && c->is_object()) {
      take(*c, "out", n.credits_out);
      take(*c, "most_out", n.credits_most);
    }
  }
  return f;
}

Json Figures::to_json(const Plan& plan) const {
  Json all = Json::object();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeFigures& n = nodes[i];
    if (!n.known) continue;
    Json j = {{"type", plan.nodes[i].spec->name}};
    each_figure(n, [&](const char* key, auto value) { j[key] = value; });
    if (n.spared > 0) j["spared"] = n.spared;
    if (n.clocked) j["cpu"] = n.cpu;
    if (n.host_s > 0) j["host_s"] = n.host_s;
    if (plan.nodes[i].run >= 0) j["body_s"] = n.body_s;
    if (!n.with.empty()) {
      j["shared_s"] = n.shared_s;
      for (int other : n.with)
        j["done_with"].push_back(plan.nodes[static_cast<std::size_t>(other)].path());
    }
    if (plan.nodes[i].credits > 0)
      j["credits"] = {
          {"total", plan.nodes[i].credits}, {"out", n.credits_out}, {"most_out", n.credits_most}};
    all[plan.nodes[i].path()] = std::move(j);
  }
  return {{"wall_s", wall_s},       {"threads", threads.compute},   {"io_threads", threads.io},
          {"cores", threads.cores}, {"step_threads", threads.step}, {"nodes", std::move(all)}};
}

bool Figures::known() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const NodeFigures& n) { return n.known; });
}

// ---- of the plan --------------------------------------------------------------------------------

int queue_room(const Plan& plan, int node) {
  const PlanNode* n = &plan.nodes[static_cast<std::size_t>(node)];
  if (n->inputs.empty()) return 0;
  int room = 1;
  n = &plan.nodes[static_cast<std::size_t>(n->inputs.front().from)];
  while (true) {  // back to where its segment begins
    if (n->spec->arity == Arity::expand) room *= std::max(1, n->count);
    if (n->credits > 0 || n->inputs.empty()) return room * n->credits;
    n = &plan.nodes[static_cast<std::size_t>(n->inputs.front().from)];
  }
}

double gathered(const Plan& plan, const PlanNode& gather) {
  const Division& division = plan.streams[static_cast<std::size_t>(gather.stream)].division;
  return gather.count / static_cast<double>(division.sharded() ? division.parts : 1);
}

double samples_each(const Plan& plan, int node) {
  double each = 1;
  const PlanNode* n = &plan.nodes[static_cast<std::size_t>(node)];
  while (!n->inputs.empty()) {
    n = &plan.nodes[static_cast<std::size_t>(n->inputs.front().from)];
    if (n->spec->arity == Arity::gather) each *= gathered(plan, *n);
    if (n->spec->arity == Arity::expand) each = n->count > 0 ? each / n->count : 0;
  }
  return each;
}

int pace_stream(const Plan& plan) {
  int free = -1;
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (plan.streams[s].trains) return static_cast<int>(s);
    if (free < 0 && !plan.streams[s].takes_turns) free = static_cast<int>(s);
  }
  return std::max(free, 0);
}

int pace_node(const Plan& plan, int stream) {
  int last = -1;
  for (int i : plan.order) {
    const PlanNode& n = plan.nodes[static_cast<std::size_t>(i)];
    if (n.stream != stream) continue;
    if (n.spec->access == Access::update) return i;
    if (n.is_sink()) last = i;
  }
  return last;
}

double pace(const Plan& plan, const Figures& figures) {
  const int stream = pace_stream(plan), end = pace_node(plan, stream);
  if (end < 0 || figures.nodes.empty()) return 0;
  const double each = samples_each(plan, end);
  if (each > 0) return each * figures.nodes[static_cast<std::size_t>(end)].rate;
  const int source = plan.streams[static_cast<std::size_t>(stream)].source;
  return figures.nodes[static_cast<std::size_t>(source)].rate;
}

}  // namespace sluice
