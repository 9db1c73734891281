// Parameters that networks share by their names: how they are described, and how a network's Spec
// departs from image_net()'s.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string_view>

#include "engine/graph/spec.h"

namespace sluice {

// Of norms and activations, read by norm_of() and act_of().
inline constexpr std::string_view monai_name_doc = "As in MONAI: a name, or [name, {arguments}].";
// ... read by norm_or_none() and act_or_none().
inline constexpr std::string_view monai_name_or_none_doc =
    "As in MONAI: a name, or [name, {arguments}]; null: none.";
inline constexpr std::string_view dropout_doc = "Probability that a value becomes 0 in training.";
inline constexpr std::string_view conv_bias_doc = "Convolutions have a bias.";
inline constexpr std::string_view heads_doc = "Heads of attention; they divide hidden_size.";
inline constexpr std::string_view qkv_bias_doc = "Queries, keys and values have a bias.";

inline ParamSpec& declared(Spec& s, std::string_view name) {
  for (ParamSpec& q : s.params)
    if (q.name == name) return q;
  throw std::logic_error(s.name + " has no parameter " + std::string(name));
}

// Parameters that a network does not have, or all but those that it has.
inline void leave_out(Spec& s, std::initializer_list<std::string_view> names) {
  std::erase_if(s.params, [&](const ParamSpec& q) {
    return std::find(names.begin(), names.end(), q.name) != names.end();
  });
}
inline void leave_only(Spec& s, std::string_view name) {
  std::erase_if(s.params, [&](const ParamSpec& q) { return q.name != name; });
}

}  // namespace sluice
