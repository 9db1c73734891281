#include "engine/plan/lineage.h"

#include <algorithm>
#include <map>

#include "engine/graph/networks_of.h"

namespace sluice {
namespace {

// 1 and 1.0 are one value of a float parameter.
void as_floats(Json& value) {
  if (value.is_number_integer()) value = value.get<double>();
  if (value.is_array())
    for (Json& element : value) as_floats(element);
}

void collect_texts(const Json& value, std::vector<std::string>& to) {
  if (value.is_string()) to.push_back(value.get<std::string>());
  if (value.is_structured())
    for (const Json& element : value) collect_texts(element, to);
}

class Walk {
 public:
  explicit Walk(const Plan& plan) : plan_(plan) {
    if (plan.graph->run.lazy) nodes_.push_back("lazy");  // other numbers
  }

  // The node's number in the text: inputs before what reads them, in the order of the in-ports, so
  // that the order of the file means nothing.
  int number(int i) {
    if (const auto known = numbers_.find(i); known != numbers_.end()) return known->second;
    const PlanNode& n = plan_.nodes[static_cast<std::size_t>(i)];
    Json entry = Json::array();
    if (n.spec->is_cache) {
      const GraphInput& in = n.inputs.front();
      const int from = number(in.from);
      if (in.from_port == 0) return numbers_[i] = from;
      const Spec& spec = *plan_.nodes[static_cast<std::size_t>(in.from)].spec;
      nodes_.push_back(Json::array({spec.outs[static_cast<std::size_t>(in.from_port)].name, from}));
      return numbers_[i] = static_cast<int>(nodes_.size()) - 1;
    }
    if (!n.is_source()) {
      Json inputs = Json::array();
      for (const GraphInput& in : n.inputs)
        inputs.push_back({in.port, number(in.from), in.from_port});
      entry = {n.spec->name, params(n), static_cast<int>(n.lane), std::move(inputs)};
      if (n.spec->access != Access::none) entry.push_back(networks(n));
    }
    nodes_.push_back(std::move(entry));
    return numbers_[i] = static_cast<int>(nodes_.size()) - 1;
  }

  Lineage result(int i) {
    number(i);
    found_.text = nodes_.dump(-1, ' ', false, Json::error_handler_t::replace);
    return std::move(found_);
  }

 private:
  Json params(const PlanNode& n) {
    std::map<std::string, Json> sorted;
    for (const auto& [key, value] : n.graph->params.items()) {
      Json v = value;
      if (const ParamSpec* p = n.spec->find_param(key); p && p->type.find("float") != p->type.npos)
        as_floats(v);
      collect_texts(v, found_.files);
      sorted[key] = std::move(v);
    }
    Json all = Json::object();
    for (auto& [key, value] : sorted) all[key] = std::move(value);
    return all;
  }

  Json networks(const PlanNode& n) {
    Json all = Json::array();
    for (const std::string& name : networks_of(*n.graph)) {
      found_.networks.push_back(name);
      for (const GraphModel& m : plan_.graph->models)
        if (m.name == name) all.push_back({m.spec->name, m.params});
    }
    return all;
  }

  const Plan& plan_;
  std::map<int, int> numbers_;
  Json nodes_ = Json::array();
  Lineage found_;
};

}  // namespace

Lineage lineage_of(const Plan& plan, int node) { return Walk(plan).result(node); }

}  // namespace sluice
