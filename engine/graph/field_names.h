// The fields that a rule of a Spec names, by a node's parameters (field_rule.h says how).
#pragma once

#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/graph/field_rule.h"

namespace sluice {

// `params`: with the defaults of those that are not given.
std::vector<std::string> field_names(const std::string& text, const Json& params);

// Whether a rule's condition holds, by the parameter that it names.
bool holds(const FieldRule& rule, const Json& of_when);

// Of a text, itself; of a list, its texts.
std::vector<std::string> strings_in(const Json& value);

}  // namespace sluice
