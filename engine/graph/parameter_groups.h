// Parameters of a network that an optimizer treats in another way: an entry of its `groups`.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

struct ParameterGroup {
  std::string match;
  std::optional<double> lr, lr_scale, weight_decay;
  std::optional<std::int64_t> from_epoch;
  bool frozen = false;
};

inline const Spec& parameter_group_spec() {
  using P = ParameterGroup;
  static const Spec s = Spec("groups", "Parameters that are treated in another way.")
                            .param("match", &P::match, "Found in a parameter's name.")
                            .required()
                            .param("lr", &P::lr, "Their learning rate.")
                            .at_least(0)
                            .param("lr_scale", &P::lr_scale, "Or so many times lr.")
                            .at_least(0)
                            .param("weight_decay", &P::weight_decay, "Their decay.")
                            .at_least(0)
                            .param("from_epoch", &P::from_epoch, "Frozen before it.")
                            .at_least(0)
                            .begins_at("these parameters stay frozen")
                            .param("frozen", &P::frozen, "Never trained.")
                            .exclusive("lr", "lr_scale")
                            .exclusive("frozen", "from_epoch");
  return s;
}

inline bool holds_groups(const ParamSpec& p) {
  return p.type == "list<json>" && p.name == "groups";
}

}  // namespace sluice
