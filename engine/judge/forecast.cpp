#include "engine/judge/forecast.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>

namespace sluice {

// ---- from figures -------------------------------------------------------------------------------

// How many times the samples that a packet stood for it stands for now: a batch twice as large
// costs twice as much.
static double resized(const Plan& plan, std::size_t node, const Plan& measured, std::size_t was) {
  const double now = samples_each(plan, static_cast<int>(node));
  const double before = samples_each(measured, static_cast<int>(was));
  return now > 0 && before > 0 ? now / before : 1;
}

PlanCosts PlanCosts::of(const Plan& plan, const Plan& measured, const Figures& figures) {
  std::map<std::string, std::size_t> by_path;
  for (std::size_t i = 0; i < measured.nodes.size(); ++i) by_path[measured.nodes[i].path()] = i;
  // Where all cores work, a body's time holds its wait for one: that is no cost of its own.
  double used = 0;
  for (const NodeFigures& n : figures.nodes) used += n.busy_s * n.cpu;
  const bool crowded =
      figures.threads.cores > 0 && used > 0.85 * figures.threads.cores * figures.wall_s;
  PlanCosts all;
  all.nodes.assign(plan.nodes.size(), {.service_s = 0, .cpu = 0});
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const auto it = by_path.find(plan.nodes[i].path());
    if (it == by_path.end() || !figures.nodes[it->second].known) continue;
    const NodeFigures& n = figures.nodes[it->second];
    NodeCost& cost = all.nodes[i];
    const auto in = static_cast<double>(n.fired + n.passed);
    if (n.fired == 0) continue;
    const auto fired = static_cast<double>(n.fired);
    const double worked = std::max(1.0, fired - static_cast<double>(n.spared));
    cost.service_s = n.busy_s / worked * resized(plan, i, measured, it->second);
    cost.cpu = n.cpu;
    if (crowded && plan.nodes[i].lane == LaneKind::compute && n.cpu < 1) {
      cost.service_s *= std::max(n.cpu, 0.05);
      cost.cpu = 1;
    }
    cost.fires = worked / in;
    cost.emits = std::clamp(1 - static_cast<double>(n.lost) / fired, 0.0, 1.0);
    if (plan.nodes[i].spec->arity == Arity::expand) {
      const int count = plan.nodes[i].count;
      cost.children = count > 0 ? count : std::max(1.0, static_cast<double>(n.out) / fired);
    }
  }
  for (const PlanStream& s : plan.streams) {
    const auto it = by_path.find(plan.nodes[static_cast<std::size_t>(s.source)].path());
    all.epoch.push_back(it == by_path.end() ? -1 : figures.nodes[it->second].epoch_size);
  }
  return all;
}

// ---- the simulation -----------------------------------------------------------------------------

namespace {

constexpr double never = 1e300;

// An epoch of a stream: over when its source has sent all and none of its packets lives.
struct Epoch {
  int stream = 0;
  bool sent = false;
  int live = 0;
};

// A credit that is out; it comes home with the last packet that holds it.
struct Hold {
  std::shared_ptr<int> free;
  explicit Hold(std::shared_ptr<int> of) : free(std::move(of)) { --*free; }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { ++*free; }
};

// A packet. Copies count as packets of their own and share what they hold.
class Token {
 public:
  Token(std::shared_ptr<Epoch> epoch, bool is_skip) : skip(is_skip), epoch_(std::move(epoch)) {
    ++epoch_->live;
  }
  Token(const Token& o) : skip(o.skip), credits(o.credits), epoch_(o.epoch_) { ++epoch_->live; }
  Token(Token&& o) noexcept = default;
  Token& operator=(Token&& o) noexcept {
    std::swap(skip, o.skip);
    std::swap(credits, o.credits);
    std::swap(epoch_, o.epoch_);
    return *this;
  }
  ~Token() {
    if (epoch_) --epoch_->live;
  }
  bool skip;
  std::vector<std::shared_ptr<Hold>> credits;
  const std::shared_ptr<Epoch>& epoch() const { return epoch_; }

 private:
  std::shared_ptr<Epoch> epoch_;
};

struct Body {
  int node = 0;
  double left_s = 0;  // alone on a core
  std::vector<Token> in;
  std::shared_ptr<Hold> credit;
};

class Simulation {
 public:
  Simulation(const Plan& plan, const Threads& threads, const PlanCosts& costs)
      : plan_(plan),
        threads_(threads),
        costs_(costs),
        service_(plan.nodes.size()),
        at_(plan.nodes.size()),
        epochs_(plan.streams.size()),
        sent_(plan.streams.size()) {
    for (std::size_t i = 0; i < at_.size(); ++i) {
      at_[i].inbox.resize(plan.nodes[i].inputs.size());
      at_[i].free = std::make_shared<int>(plan.nodes[i].credits);
    }
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const int by = done_by(static_cast<int>(i));
      service_[static_cast<std::size_t>(by)] +=
          cost(static_cast<int>(i)).service_s * firings_each(static_cast<int>(i), by) *
          (plan.nodes[i].is_source() ? cost(static_cast<int>(i)).fires : 1);
    }
    takes_turns_ = plan.turns.has_value() && costs.epoch[static_cast<std::size_t>(train_)] > 0;
    for (std::size_t s = 0; s < plan.streams.size(); ++s) {
      rests_.push_back(rests(s));
      begin_epoch(s);
    }
    if (takes_turns_) turn_ = train_;
    pace_ = pace_node(plan, train_);
    // Behind a 1:n node that makes now more, now fewer nobody knows of how many samples a packet
    // is.
    if (pace_ >= 0 && samples_each(plan, pace_) <= 0)
      pace_ = plan.streams[static_cast<std::size_t>(train_)].source;
  }

  double rate() {
    if (pace_ < 0) return 0;
    const double each = samples_each(plan_, pace_);
    constexpr int most_events = 300'000, most_packets = 4'000, cycles = 6;
    double begin_s = -1;
    std::int64_t begin_n = 0;
    for (int events = 0; events < most_events; ++events) {
      start_all();
      if (!advance()) {
        if (!flush_parked(true)) break;
        continue;
      }
      const bool warm = takes_turns_ ? cycles_ >= 1 : done_ >= most_packets / 8;
      if (begin_s < 0 && warm) {
        begin_s = now_;
        begin_n = done_;
      }
      if (takes_turns_ ? cycles_ >= cycles : done_ >= most_packets) break;
      if (takes_turns_ && cycles_ != seen_cycles_) {
        seen_cycles_ = cycles_;
        last_s_ = now_;
        last_n_ = done_;
      }
    }
    if (takes_turns_ && seen_cycles_ > 1) return each * per(last_n_ - begin_n, last_s_ - begin_s);
    if (begin_s >= 0 && done_ > begin_n) return each * per(done_ - begin_n, now_ - begin_s);
    return each * per(done_, now_);
  }

 private:
  struct At {
    std::vector<std::deque<Token>> inbox;
    int running = 0;
    std::shared_ptr<int> free;                        // credits
    double fire = 0, emit = 0, child = 0, group = 0;  // what is due of the shares
  };

  // Whose bodies do its work: those of a later node of its run where it leaves it.
  int done_by(int i) const {
    if (node(i).leaves != Leaves::always) return i;
    const auto& run = plan_.runs[static_cast<std::size_t>(node(i).run)].nodes;
    auto at = std::find(run.begin(), run.end(), i);
    while (at + 1 != run.end() && node(*at).leaves == Leaves::always) ++at;
    return *at;
  }
  // How many of its firings one firing of `by` works for.
  double firings_each(int i, int by) const {
    if (i == by) return 1;
    const double mine = samples_each(plan_, i), theirs = samples_each(plan_, by);
    const double each =
        mine > 0 && theirs > 0 ? theirs / mine : 1 / std::max(1.0, cost(i).children);
    return node(by).spec->arity == Arity::gather ? each * gathered(plan_, node(by)) : each;
  }

  // A stream that is left out: it takes turns, and the length of its epoch or of training's is
  // unknown, as where its turn never came; or no body of it takes time, so it would go round
  // without end.
  bool rests(std::size_t s) const {
    if (static_cast<int>(s) == train_) return false;
    if (plan_.streams[s].takes_turns) return !takes_turns_ || costs_.epoch[s] <= 0;
    for (std::size_t i = 0; i < service_.size(); ++i)
      if (plan_.nodes[i].stream == static_cast<int>(s) && service_[i] > 0) return false;
    return true;
  }

  static double per(std::int64_t n, double s) { return s > 0 ? static_cast<double>(n) / s : 0; }
  const PlanNode& node(int i) const { return plan_.nodes[static_cast<std::size_t>(i)]; }
  const NodeCost& cost(int i) const { return costs_.nodes[static_cast<std::size_t>(i)]; }
  At& at(int i) { return at_[static_cast<std::size_t>(i)]; }

  void begin_epoch(std::size_t stream) {
    auto epoch = std::make_shared<Epoch>();
    epoch->stream = static_cast<int>(stream);
    epochs_[stream].push_back(epoch);
    sent_[stream] = 0;
  }

  // ---- what may start ----
  void start_all() {
    for (bool any = true; any;) {
      any = false;
      end_turns();
      // The last first: what is nearly through comes before what is new.
      for (auto it = plan_.order.rbegin(); it != plan_.order.rend(); ++it)
        while (start(*it)) any = true;
      if (!any) any = flush_parked(false);
    }
  }

  bool room(int i) {
    const LaneKind lane = node(i).lane;
    return at(i).running < threads_.slots(node(i)) &&
           lanes_[static_cast<std::size_t>(lane)] < threads_.on(lane);
  }

  bool turn_open(int i, const Token& token) const {
    if (!takes_turns_ || !node(i).takes_turns || !node(i).gate) return true;
    const auto& queue = epochs_[static_cast<std::size_t>(token.epoch()->stream)];
    return token.epoch()->stream == turn_ && token.epoch() == queue.front();
  }

  bool start(int i) {
    const PlanNode& n = node(i);
    if (n.is_source()) return start_source(i);
    At& a = at(i);
    for (const auto& port : a.inbox)
      if (port.empty()) return false;
    if (n.spec->arity == Arity::gather) return start_group(i);
    if (!turn_open(i, a.inbox.front().front())) return false;
    bool skip = false;
    for (const auto& port : a.inbox) skip |= port.front().skip;
    const double due = a.fire + cost(i).fires;
    const bool free_pass = skip || due < 1 || n.spec->arity == Arity::shuffle;
    const bool enters = n.gate && n.credits > 0;  // a segment, so it needs a credit
    if ((enters && *a.free <= 0) || (!free_pass && !room(i))) return false;
    if (!skip) a.fire = free_pass ? due : due - 1;
    Body body = take(i);
    if (enters) body.credit = credit_of(i);
    if (free_pass)
      finish(std::move(body), skip);
    else
      run(std::move(body));
    return true;
  }

  Body take(int i) {
    Body body;
    body.node = i;
    for (auto& port : at(i).inbox) {
      body.in.push_back(std::move(port.front()));
      port.pop_front();
    }
    return body;
  }

  bool start_source(int i) {
    const auto s = static_cast<std::size_t>(node(i).stream);
    if (rests_[s] || !room(i) || *at(i).free <= 0) return false;
    if (takes_turns_ && epochs_[s].size() > 3) return false;
    Body body;
    body.node = i;
    body.credit = credit_of(i);
    body.in.emplace_back(epochs_[s].back(), false);
    if (costs_.epoch[s] > 0 && ++sent_[s] >= costs_.epoch[s]) {
      epochs_[s].back()->sent = true;
      begin_epoch(s);
    }
    run(std::move(body));
    return true;
  }

  // Skips are absorbed; a group is of one epoch.
  bool start_group(int i) {
    const double due = at(i).group + gathered(plan_, node(i));
    const auto wanted = static_cast<std::size_t>(due + 1e-9);
    auto& port = at(i).inbox.front();
    for (auto it = port.begin(); it != port.end();) it = it->skip ? port.erase(it) : it + 1;
    std::size_t count = 0;
    while (count < port.size() && count < wanted && port[count].epoch() == port.front().epoch())
      ++count;
    const bool other_follows = count < port.size() && count < wanted;
    if (count == 0 || (count < wanted && !other_follows)) return false;
    if (!launch_group(i, count)) return false;
    at(i).group = other_follows ? 0 : due - static_cast<double>(count);
    return true;
  }

  bool launch_group(int i, std::size_t count) {
    At& a = at(i);
    if (!turn_open(i, a.inbox.front().front())) return false;
    if (!room(i) || (node(i).credits > 0 && *a.free <= 0)) return false;
    Body body;
    body.node = i;
    for (auto& port : a.inbox)
      for (std::size_t k = 0; k < count && !port.empty(); ++k) {
        body.in.push_back(std::move(port.front()));
        port.pop_front();
      }
    if (node(i).credits > 0) body.credit = credit_of(i);
    run(std::move(body));
    return true;
  }

  // The rest of an epoch that fills no batch: when nothing else of it is under way.
  bool flush_parked(bool stuck) {
    bool any = false;
    for (int i : plan_.order) {
      if (node(i).spec->arity != Arity::gather) continue;
      auto& port = at(i).inbox.front();
      if (port.empty()) continue;
      const auto& epoch = port.front().epoch();
      if (!stuck && !(epoch->sent && epoch->live == parked(*epoch))) continue;
      if (node(i).drop_last) {
        for (auto& p : at(i).inbox) p.clear();
        any = true;
      } else {
        any |= launch_group(i, port.size());
      }
    }
    return any;
  }

  int parked(const Epoch& epoch) {
    int all = 0;
    for (int i : plan_.order) {
      if (node(i).spec->arity != Arity::gather) continue;
      for (const auto& port : at(i).inbox)
        for (const Token& t : port) all += t.epoch().get() == &epoch;
    }
    return all;
  }

  std::shared_ptr<Hold> credit_of(int i) { return std::make_shared<Hold>(at(i).free); }

  // ---- time ----
  void run(Body body) {
    ++at(body.node).running;
    ++lanes_[static_cast<std::size_t>(node(body.node).lane)];
    body.left_s = service_[static_cast<std::size_t>(body.node)];
    bodies_.push_back(std::move(body));
  }

  // The step lane's bodies have threads of their own, which wait for each other.
  double cores_of(const Body& body) const {
    const bool step = node(body.node).lane == LaneKind::step;
    return cost(body.node).cpu * (step ? std::max(1, threads_.step) : 1);
  }

  // How fast a body runs, 1: as if it were alone. The step lane gets cores first; data bodies share
  // the rest.
  double speed(const Body& body, double step_demand, double data_demand) const {
    const double c = std::clamp(cost(body.node).cpu, 0.0, 1.0);
    if (c <= 0) return 1;
    const double cores = threads_.cores > 0 ? threads_.cores : never;
    const bool step = node(body.node).lane == LaneKind::step;
    const double rest = std::max(0.1 * std::min(cores, data_demand), cores - step_demand);
    const double share = step ? std::min(1.0, cores / std::max(step_demand, 1e-9))
                              : std::min(1.0, rest / std::max(data_demand, 1e-9));
    return 1 / (1 - c + c / std::max(share, 1e-6));
  }

  bool advance() {
    if (bodies_.empty()) return false;
    double step = 0, data = 0;
    for (const Body& b : bodies_)
      (node(b.node).lane == LaneKind::step ? step : data) += cores_of(b);
    double least = never;
    for (const Body& b : bodies_) least = std::min(least, b.left_s / speed(b, step, data));
    now_ += least;
    std::vector<Body> ended;
    for (auto it = bodies_.begin(); it != bodies_.end();) {
      it->left_s -= least * speed(*it, step, data);
      if (it->left_s > 1e-12) {
        ++it;
        continue;
      }
      ended.push_back(std::move(*it));
      it = bodies_.erase(it);
    }
    for (Body& b : ended) {
      --at(b.node).running;
      --lanes_[static_cast<std::size_t>(node(b.node).lane)];
      finish(std::move(b), false);
    }
    return true;
  }

  // ---- what a firing leaves ----
  void finish(Body body, bool skip) {
    const int i = body.node;
    const PlanNode& n = node(i);
    At& a = at(i);
    if (!skip) {
      a.emit += cost(i).emits;
      skip = a.emit < 1 - 1e-9;
      if (!skip) a.emit -= 1;
    }
    if (i == pace_) ++done_;
    Token out(body.in.front().epoch(), skip);
    if (body.credit) {
      out.credits.push_back(std::move(body.credit));
    } else {
      for (Token& t : body.in)
        for (auto& c : t.credits)
          if (std::find(out.credits.begin(), out.credits.end(), c) == out.credits.end())
            out.credits.push_back(c);
    }
    body.in.clear();
    int copies = 1;
    if (n.spec->arity == Arity::expand && !skip) {
      a.child += cost(i).children;
      copies = std::max(1, static_cast<int>(a.child));
      a.child -= copies;
    }
    for (const auto& port : n.outs)
      for (const PlanEdge& edge : port)
        for (int k = 0; k < copies; ++k) deliver(edge, out);
  }

  void deliver(const PlanEdge& edge, const Token& token) {
    const auto& inputs = node(edge.to).inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k].port == edge.port) at(edge.to).inbox[k].push_back(token);
  }

  // Training, then each validation, then training: whoever's epoch is over hands on.
  void end_turns() {
    for (std::size_t s = 0; s < epochs_.size(); ++s) {
      auto& queue = epochs_[s];
      while (queue.size() > 1 && queue.front()->sent && queue.front()->live == 0) {
        if (takes_turns_ && plan_.streams[s].takes_turns) {
          if (static_cast<int>(s) != turn_) break;
          hand_on();
        }
        queue.pop_front();
      }
    }
  }

  void hand_on() {
    std::vector<int> round{train_};
    for (const int s : plan_.turns->streams) {
      const int every = std::max(1, plan_.streams[static_cast<std::size_t>(s)].every);
      if (!rests_[static_cast<std::size_t>(s)] && (cycles_ + 1) % every == 0) round.push_back(s);
    }
    const auto it = std::find(round.begin(), round.end(), turn_);
    if (it == round.end() || it + 1 == round.end()) {
      turn_ = round.front();
      ++cycles_;
    } else {
      turn_ = *(it + 1);
    }
  }

  const Plan& plan_;
  const Threads threads_;
  const PlanCosts& costs_;
  const int train_ = pace_stream(plan_);
  std::vector<double> service_;  // of a body, with what other nodes of its run leave to it
  std::vector<At> at_;
  std::vector<Body> bodies_;
  std::array<int, 4> lanes_{};
  std::vector<std::deque<std::shared_ptr<Epoch>>> epochs_;  // by stream; the last one is being sent
  std::vector<std::int64_t> sent_;
  std::vector<bool> rests_;  // by stream
  bool takes_turns_ = false;
  int turn_ = -1, pace_ = -1, cycles_ = 0, seen_cycles_ = 0;
  double now_ = 0, last_s_ = 0;
  std::int64_t done_ = 0, last_n_ = 0;
};

}  // namespace

double forecast(const Plan& plan, const Threads& threads, const PlanCosts& costs) {
  return Simulation(plan, threads, costs).rate();
}

}  // namespace sluice
