#include "engine/judge/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace sluice {
namespace {

constexpr double worth_naming = 0.5;  // nothing that is idle for half of the time is a bottleneck
constexpr double nearly_full = 0.7;
constexpr double launch_bound = 0.8;  // the host's share of a stream's time

std::string text(const char* form, double value) {
  char out[48];
  std::snprintf(out, sizeof out, form, value);
  return out;
}
std::string percent(double share) { return text("%.0f %%", 100 * share); }
std::string per_second(double rate) { return text(rate < 10 ? "%.2g/s" : "%.0f/s", rate); }

const char* name_of(LaneKind lane) {
  constexpr std::array<const char*, 4> names{"compute", "io", "step", "copy"};
  return names[static_cast<std::size_t>(lane)];
}

class Judge {
 public:
  Judge(const Plan& plan, const Figures& figures) : plan_(plan), figures_(figures) {}

  Verdict judge() {
    if (figures_.wall_s <= 0 || !figures_.known()) return {};
    v_.rate = pace(plan_, figures_);
    lanes();
    lone_nodes();
    rank();
    if (const int gate = out_of_credits(); gate >= 0) {
      credits(gate);
    } else if (!v_.limits.empty() && v_.limits.front().busy >= worth_naming) {
      v_.node = v_.limits.front().node;
      say(v_.limits.front());
    } else {
      say_nothing();
    }
    return std::move(v_);
  }

 private:
  const PlanNode& node(int i) const { return plan_.nodes[static_cast<std::size_t>(i)]; }
  const NodeFigures& of(int i) const { return figures_.nodes[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(plan_.nodes.size()); }
  std::string quoted(int i) const { return "`" + node(i).path() + "`"; }
  // Of what is done in one pass: all of it.
  std::string quoted(const Limit& l) const {
    std::string out;
    for (int i : members(l)) out += (out.empty() ? "" : " + ") + quoted(i);
    return out;
  }
  std::vector<int> members(const Limit& l) const {
    return l.lone ? std::vector<int>{l.node} : done_with(plan_, figures_, l.node);
  }

  void add(Limit limit) {
    limit.busy = std::min(limit.busy, 1.0);
    if (limit.busy <= 0) return;
    limit.rate = v_.rate / limit.busy;
    v_.limits.push_back(limit);
  }

  void lanes() {
    for (LaneKind lane : {LaneKind::compute, LaneKind::io, LaneKind::step, LaneKind::copy}) {
      Limit l{.lane = lane, .slots = figures_.threads.on(lane)};
      double most = 0;
      for (int i = 0; i < size(); ++i) {
        if (node(i).lane != lane) continue;
        l.busy += of(i).busy_s;
        if (of(i).busy_s <= most) continue;
        most = of(i).busy_s;
        l.node = i;
      }
      const double whole = figures_.wall_s * l.slots;
      l.busy /= whole;
      l.most = most / whole;
      add(l);
    }
  }

  void lone_nodes() {
    for (int i = 0; i < size(); ++i) {
      const int slots = figures_.threads.slots(node(i));
      if (slots >= figures_.threads.on(node(i).lane)) continue;
      // Its slots are taken by all that its bodies do, for other nodes of its run too.
      const double busy = in_bodies(i) / figures_.wall_s / slots;
      add({i, node(i).lane, true, slots, busy, busy});
    }
  }

  double in_bodies(int i) const { return node(i).run < 0 ? of(i).busy_s : of(i).body_s; }

  // The tightest first, each node once.
  void rank() {
    auto& all = v_.limits;
    std::stable_sort(all.begin(), all.end(),
                     [](const Limit& a, const Limit& b) { return a.busy > b.busy; });
    const auto step = std::find_if(all.begin(), all.end(),
                                   [](const Limit& l) { return l.lane == LaneKind::step; });
    if (step != all.end() && step->busy >= nearly_full && waits_for_data() < 0.1)
      std::rotate(all.begin(), step, step + 1);
    for (auto it = all.begin(); it != all.end();) {
      const bool again = std::any_of(all.begin(), it, [&](auto& l) { return l.node == it->node; });
      it = again ? all.erase(it) : it + 1;
    }
  }

  // How much of the time the training region stands ready for a batch that is not there.
  double waits_for_data() const {
    double trains = -1, reads = 0;  // without training: the nodes where the step lane begins
    for (int i = 0; i < size(); ++i) {
      const PlanNode& n = node(i);
      if (n.lane != LaneKind::step || n.inputs.empty()) continue;
      if (node(n.inputs.front().from).lane == LaneKind::step) continue;
      if (n.training)
        trains = std::max(trains, of(i).starved);
      else
        reads = std::max(reads, of(i).starved);
    }
    return trains >= 0 ? trains : reads;
  }

  // A segment in which nothing waits for a thread: nearly all packets that its credits let in are
  // inside bodies, and still the next segment has nothing to do.
  int out_of_credits() const {
    if (!v_.limits.empty() && v_.limits.front().busy >= nearly_full) return -1;
    int found = -1;
    for (int i = 0; i < size(); ++i) {
      const PlanNode& n = node(i);
      if (n.credits == 0 || n.takes_turns || of(i).blocked < worth_naming) continue;
      if (bodies_in(i) < nearly_full * (n.credits - n.need + 1) || !next_gates_starve(i)) continue;
      if (found < 0 || of(i).blocked > of(found).blocked) found = i;
    }
    return found;
  }

  // How many packets of the segment that begins here are in a body, on average; children of a 1:n
  // share their parent's credit.
  double bodies_in(int gate) const {
    double bodies = 0;
    for (int i = 0; i < size(); ++i) {
      if (node(i).segment != gate || node(i).depth_in > node(gate).depth_out) continue;
      bodies += in_bodies(i) / figures_.wall_s;
    }
    return bodies;
  }

  bool next_gates_starve(int from) const {
    bool any = false;
    for (int i = 0; i < size(); ++i) {
      if (!node(i).gate || i == from || node(i).inputs.empty()) continue;
      if (node(node(i).inputs.front().from).segment != from) continue;
      any = true;
      if (of(i).starved < worth_naming) return false;
    }
    return any;
  }

  // ---- words ----
  std::string names(const std::vector<int>& all) const {
    std::string out;
    for (int i : all) out += (out.empty() ? "" : "+") + node(i).path();
    return out;
  }

  void credits(int gate) {
    const PlanNode& n = node(gate);
    v_.node = gate;
    v_.text = "the credits of " + quoted(gate) + " limit: its " + std::to_string(n.credits) +
              " are out, it waits for one " + percent(of(gate).blocked) +
              " of the time, and what comes behind waits for input";
    v_.advice = "its " + std::to_string(n.credits) + " credits are out";
    v_.change = "free:" + node(gate).path();
    if (n.spec->credits_param.empty()) return;
    v_.change = n.path() + "." + n.spec->credits_param + "=" + std::to_string(2 * n.credits);
    v_.text += "; a larger `" + n.spec->credits_param + "` lifts it";
    v_.advice += ": raise " + n.spec->credits_param;
  }

  void say_nothing() {
    v_.text = "nothing limits: no thread is busy half of the time";
    if (!v_.limits.empty())
      v_.text +=
          " (most: " + quoted(v_.limits.front()) + ", " + percent(v_.limits.front().busy) + ")";
  }

  void say(const Limit& l) {
    const auto all = members(l);
    v_.text = quoted(l) + (all.size() > 1 ? ", done in one pass, limit: " : " limits: ");
    const std::string slots = std::to_string(l.slots);
    const bool trains = plan_.streams[static_cast<std::size_t>(node(l.node).stream)].trains;
    v_.change = l.lane == LaneKind::step && trains ? "null:model" : "free:" + names(all);
    if (l.lone && node(l.node).graph->threads == l.slots)
      v_.change = node(l.node).path() + ".threads=" + std::to_string(2 * l.slots);
    if (l.lone) {
      v_.text += (l.slots == 1 ? "it works on one packet at a time" : slots + " at a time") +
                 ", busy " + percent(l.busy);
      v_.advice = l.slots == 1 ? "one at a time" : slots + " at a time";
    } else if (of(l.node).host_s > 0) {
      on_device(l);
    } else if (l.lane == LaneKind::step || l.lane == LaneKind::copy) {
      v_.text += std::string("the one ") + name_of(l.lane) + " thread is busy " + percent(l.busy);
      v_.advice = std::string("the ") + name_of(l.lane) + " thread is busy " + percent(l.busy);
    } else {
      v_.text +=
          slots + " of " + slots + " " + name_of(l.lane) + " threads busy " + percent(l.busy);
    }
    if (!l.lone && l.most < 0.9 * l.busy) v_.text += ", " + percent(l.most) + " here";
    if (!l.lone && l.lane != LaneKind::step && l.lane != LaneKind::copy) lift(l);
    if (v_.rate > 0 && v_.limits.size() > 1 && v_.limits[1].busy >= 0.05 &&
        v_.limits[1].busy <= l.busy)
      v_.text += "; next limit " + quoted(v_.limits[1]) + " at " + per_second(next_rate());
  }

  // A stream of a device is busy as long as it has work; where the host hardly queues it as fast,
  // its kernels are too short.
  void on_device(const Limit& l) {
    double host = 0;
    for (int i = 0; i < size(); ++i)
      if (node(i).lane == l.lane) host += of(i).host_s;
    host /= figures_.wall_s;
    v_.text += std::string("the device's ") + name_of(l.lane) + " stream is busy " +
               percent(l.busy) + ", the thread that queues its work " + percent(host);
    v_.advice = std::string("the ") + name_of(l.lane) + " stream is busy " + percent(l.busy);
    if (host < launch_bound * l.busy) return;
    v_.text += ", so kernels wait to be queued";
    if (l.lane != LaneKind::step || plan_.graph->run.cuda_graphs) return;
    v_.text += ": `run.cuda_graphs` queues the training step as a whole";
    v_.advice = "kernels wait to be queued: run.cuda_graphs";
  }

  double next_rate() const {
    return v_.limits.size() > 1 && v_.limits[1].rate > 0 ? v_.limits[1].rate : 1e300;
  }

  // How many more threads are worth it. More threads than cores help only where they wait, as
  // reading does.
  void lift(const Limit& l) {
    const int cores = figures_.threads.cores;
    int more = static_cast<int>(
        std::min(2.0 * l.slots, std::ceil(l.slots * next_rate() / std::max(l.rate, 1e-9))));
    more = std::max(more, l.slots + 1);
    if (l.lane == LaneKind::compute && cores > 0) more = std::min(more, cores);
    if (more <= l.slots) {
      v_.text += "; these are all cores: it needs more of them, or less work a sample";
      v_.advice = "all " + std::to_string(cores) + " cores work";
      return;
    }
    v_.change = l.lane == LaneKind::io ? "io_threads=" : "threads=";
    v_.change += std::to_string(more);
    if (v_.rate <= 0) {
      v_.text += "; more may lift it";
      v_.advice = "more " + std::string(name_of(l.lane)) + " threads may lift it";
      return;
    }
    const double rate = std::min(l.rate * more / l.slots, next_rate());
    v_.text += "; with " + std::to_string(more) + ", about " + per_second(rate);
    v_.advice = std::string(name_of(l.lane)) + " threads " + std::to_string(l.slots) + " → " +
                std::to_string(more) + " would give about " + per_second(rate);
  }

  const Plan& plan_;
  const Figures& figures_;
  Verdict v_;
};

}  // namespace

Verdict judge(const Plan& plan, const Figures& figures) { return Judge(plan, figures).judge(); }

}  // namespace sluice
