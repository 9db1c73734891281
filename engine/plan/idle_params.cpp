// Parameters of nodes that change nothing as the others stand, those that need another, and epochs
// to begin at that a run does not have: by what the parameters' declarations say (graph/spec.h).
#include <algorithm>

#include "engine/graph/parameter_groups.h"
#include "engine/plan/plan_pass.h"

namespace sluice {
namespace {

std::string listed(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& s : all) text += (text.empty() ? "\"" : ", \"") + s + "\"";
  return text;
}

bool is_set(const Json& value) {
  return !(value.is_null() || value == "" || value == false || value == 0 ||
           (value.is_array() && value.empty()));
}

class IdleParams : PlanPass {
 public:
  explicit IdleParams(const PlanPass& pass) : PlanPass(pass) {}

  void run() {
    for (int i = 0; i < size(); ++i) {
      const GraphNode& n = *node(i).graph;
      check(n);
      for (const GraphNode& inner : n.step) check(inner);
    }
  }

 private:
  void check(const GraphNode& n) {
    for (const ParamSpec& p : n.spec->params) {
      if (p.use) {
        if (is_read(n, p))
          need(n, p);
        else
          idle(n, p);
        begins(n, p, n.params.at(p.name), n.place.child(p.name), p.name);
      }
      if (holds_groups(p)) groups(n, p);
    }
  }

  static bool is_read(const GraphNode& n, const ParamSpec& p) {
    if (!p.use || p.use->reader.empty()) return true;
    const std::string value = n.params.at(p.use->reader);
    return std::ranges::find(p.use->read_at, value) != p.use->read_at.end();
  }

  void idle(const GraphNode& n, const ParamSpec& p) {
    if (!n.is_given(p.name) || n.params.at(p.name) == p.fallback) return;
    const std::string& reader = p.use->reader;
    diagnostics_.warning("SL0318",
                         "\"" + p.name + "\" has no effect here: \"" + reader + "\" is " +
                             n.params.at(reader).dump(),
                         n.place.child(p.name).key(), "nodes." + n.path + "." + p.name,
                         "it is of " + listed(p.use->read_at));
  }

  void need(const GraphNode& n, const ParamSpec& p) {
    const ParamUse& use = *p.use;
    const bool set = is_set(n.params.at(p.name));
    if (use.needed && !set)
      missing(n, use.reader, " " + n.params.at(use.reader).get<std::string>(), p);
    const auto helps = [&](const std::string& other) {
      return is_set(n.params.at(other)) && is_read(n, *n.spec->find_param(other));
    };
    if (set && !use.needs.empty() && std::ranges::none_of(use.needs, helps))
      missing(n, p.name, "", *n.spec->find_param(use.needs.front()));
  }

  // `name` with this value of it needs the parameter `other`.
  void missing(const GraphNode& n, const std::string& name, const std::string& value,
               const ParamSpec& other) {
    const bool is_number = n.params.at(other.name).is_number();
    diagnostics_.error("SL0224",
                       "\"" + name + "\"" + value + " needs " + (is_number ? "a " : "") + "\"" +
                           other.name + "\"" + (is_number ? " above 0" : ""),
                       n.place.child(name), "nodes." + n.path + "." + name);
  }

  void groups(const GraphNode& n, const ParamSpec& p) {
    const Json& all = n.params.at(p.name);
    for (std::size_t g = 0; g < all.size(); ++g)
      for (const ParamSpec& q : parameter_group_spec().params)
        begins(n, q, all[g].value(q.name, Json()), n.place.child(p.name).child(g).child(q.name),
               p.name + "." + std::to_string(g) + "." + q.name);
  }

  void begins(const GraphNode& n, const ParamSpec& p, const Json& from, const Place& place,
              const std::string& key) {
    if (!plan_.turns || !p.use || p.use->never_begun.empty() || !from.is_number_integer() ||
        from.get<std::int64_t>() < graph_.run.epochs)
      return;
    diagnostics_.warning(
        "SL0318",
        "\"" + p.name + "\" is " + from.dump() + ", counted from 0, and the run has " +
            std::to_string(graph_.run.epochs) + " (run.epochs): " + p.use->never_begun,
        place.key(), "nodes." + n.path + "." + key);
  }
};

}  // namespace

void check_idle_params(const PlanPass& pass) { IdleParams(pass).run(); }

}  // namespace sluice
