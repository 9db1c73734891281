// Backward passes: what each updater's goes through, what of that gives it no gradient, and what
// another updater has used or changed before.
//
//   model (net) ── concat ── model (judge) ── loss ── updater of net     goes through all four
//                                                  └─ updater of judge   through the last two
#include <algorithm>
#include <map>

#include "engine/graph/field_names.h"
#include "engine/graph/networks_of.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

class Gradients : PlanPass {
 public:
  explicit Gradients(const PlanPass& pass)
      : PlanPass(pass),
        makers_(plan_.nodes.size()),
        taken_(plan_.nodes.size()),
        used_by_(plan_.nodes.size(), -1) {}

  void run() {
    if (!plan_.turns) return;
    for (int i : plan_.order) trace(i);
    for (int u : plan_.turns->updaters)  // in the plan's order
      if (node(u).graph->step.empty()) updater(u);
    for (int i = 0; i < size(); ++i)
      if (lost_.count(i)) loses(i);
  }

 private:
  using Makers = std::map<std::string, int>;  // by field

  // Who made what leaves the node, where gradients go back from it to what that one took.
  void trace(int i) {
    const PlanNode& n = node(i);
    Makers& made = makers_[i];
    for (const GraphInput& in : n.inputs)
      made.insert(makers_[in.from].begin(), makers_[in.from].end());
    const Makers came = made;
    if (n.spec->rules.empty()) made.clear();  // it may do anything
    for (const FieldRule& rule : n.spec->rules) {
      const Json& params = n.graph->params;
      if (!holds(rule, params.contains(rule.when) ? params.at(rule.when) : Json())) continue;
      for (const std::string& name : field_names(rule.fields, params)) {
        if (rule.act == FieldRule::Act::takes) {
          if (const auto from = came.find(name); from != came.end()) taken_[i].insert(from->second);
        } else if (makes(rule)) {
          made.erase(name);
          if (n.spec->is_differentiable) made.emplace(name, i);
        }
      }
    }
  }

  static bool makes(const FieldRule& rule) {
    using Act = FieldRule::Act;
    return rule.act == Act::gives || rule.act == Act::changes || rule.act == Act::resizes ||
           rule.act == Act::pads || rule.act == Act::crops;
  }

  void updater(int u) {
    const std::string network = network_updated_by(*node(u).graph);
    std::map<int, bool> leads;
    for (int n : taken_[u]) {
      find_way(n, network, leads);
      find_losses(n, network);
    }
    std::vector<int> way;
    for (int n : plan_.order)
      if (leads.count(n) && leads.at(n)) way.push_back(n);
    // Where the tape is written; networks and losses write their own wherever they are.
    for (int n : way)
      if (node(n).spec->lane_kind != LaneKind::step) node(n).lane = LaneKind::step;
    if (!is_used(u, way)) is_old(u, way);
    for (int n : way)
      if (used_by_[n] < 0) used_by_[n] = u;
  }

  bool reads(int n, const std::string& network) {
    const auto names = networks_of(*node(n).graph);
    return std::find(names.begin(), names.end(), network) != names.end();
  }

  // Whether a gradient goes from what the node makes to the network's weights.
  bool find_way(int n, const std::string& network, std::map<int, bool>& leads) {
    if (const auto known = leads.find(n); known != leads.end()) return known->second;
    bool any = reads(n, network);
    for (int before : taken_[n]) any |= find_way(before, network, leads);
    return leads[n] = any;
  }

  // What comes before a pass of the network itself need not have a gradient.
  void find_losses(int n, const std::string& network) {
    if (reads(n, network) || !seen_.insert({n, network}).second) return;
    if (!node(n).flow.no_gradient.empty()) lost_.insert(n);
    for (int before : taken_[n]) find_losses(before, network);
  }

  // A loss that no gradient of the network reaches.
  void loses(int i) {
    const std::string& end = node(i).flow.no_gradient;
    const int by = graph_.find(end);
    const std::string type = by < 0 ? "" : " (" + node(by).spec->name + ")";
    error_at(
        i, "key", "SL0613",
        "\"" + path(i) + "\" trains nothing: no gradient goes back through \"" + end + "\"" + type,
        "use nodes with a gradient between model and loss, such as warp");
  }

  // A pass of a network, or a loss, which keeps for one backward pass what that needs.
  bool is_for_one_backward(int n) {
    if (!networks_of(*node(n).graph).empty()) return true;
    bool gives_number = false, takes_numbers = true;  // sum_losses keeps nothing
    for (const FieldRule& rule : node(n).spec->rules) {
      gives_number |= rule.act == FieldRule::Act::gives && rule.form == Form::scalar;
      takes_numbers &= rule.act != FieldRule::Act::takes || rule.form == Form::scalar;
    }
    return gives_number && !takes_numbers;
  }

  bool is_used(int u, const std::vector<int>& way) {
    for (auto n = way.rbegin(); n != way.rend(); ++n) {
      const int first = used_by_[*n];
      if (first < 0 || !is_for_one_backward(*n)) continue;
      error_at(u, "in", "SL0419",
               "\"" + path(u) + "\" trains on a backward pass through \"" + path(*n) +
                   "\", which that of \"" + path(first) + "\" has used up",
               "let a model and a loss of its own stand behind \"" + path(first) + "\"");
      return true;
    }
    return false;
  }

  // A pass whose weights are not those of the forward pass any more.
  void is_old(int u, const std::vector<int>& way) {
    const std::set<int> before = upstream(u);
    for (std::size_t k = 0; k < plan_.turns->updaters.size(); ++k) {
      const int other = plan_.turns->updaters[k];
      if (!before.count(other)) continue;
      const std::set<int> behind = downstream(other);
      for (int n : way) {
        if (behind.count(n) || !reads(n, plan_.turns->networks[k])) continue;
        error_at(u, "in", "SL0419",
                 "\"" + path(u) + "\" trains on a backward pass through \"" + path(n) +
                     "\", which read network \"" + plan_.turns->networks[k] + "\" before \"" +
                     path(other) + "\" changed its weights",
                 "put \"" + path(other) + "\" behind \"" + path(u) + "\", or a model of \"" +
                     plan_.turns->networks[k] + "\" between them");
        return;
      }
    }
  }

  std::vector<Makers> makers_;        // by node
  std::vector<std::set<int>> taken_;  // by node: who made the fields that it takes
  std::vector<int> used_by_;          // by node: the first updater that goes back through it
  std::set<std::pair<int, std::string>> seen_;
  std::set<int> lost_;
};

}  // namespace

void plan_gradients(const PlanPass& pass) { Gradients(pass).run(); }

}  // namespace sluice
