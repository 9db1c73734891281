#include "engine/graph/inner_nodes.h"

namespace sluice {

// Who holds a network, and when, follows from the outer node alone: so all in it are of that one.
std::optional<StepFault> wrong_step(const Json& step, const std::string& net,
                                    const Catalogue& catalogue) {
  if (!step.is_array() || step.empty())
    return StepFault{"expected a list of nodes, from the network's pass to its updater", {}};
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i].is_array())
      return StepFault{"expected {\"type\": ...}, found " + describe_json(step[i]), i};
    const Json named = step[i].is_object() ? step[i].value("type", Json()) : Json();
    const std::string type = named.is_string() ? named.get<std::string>() : "";
    const Spec* spec = catalogue.find(type);
    if (!spec) continue;
    const bool last = i + 1 == step.size();
    if (last != (spec->access == Access::update))
      return StepFault{last ? "its last node, \"" + type + "\", updates no network"
                            : "\"" + type + "\" updates a network before the last node",
                       i};
    for (const std::string& key : spec->network_params)
      if (const Json other = step[i].value(key, Json()); other.is_string() && other != net)
        return StepFault{"\"" + type + "\" names the network " + other.dump() +
                             "; a step is of \"net\" alone, \"" + net + "\"",
                         i};
  }
  return std::nullopt;
}

}  // namespace sluice
