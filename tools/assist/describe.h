// A Spec in words, for `inspect` and the node reference: types, defaults, traits, what becomes of
// fields, and an example.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/spec.h"

namespace sluice::assist {

std::string type_of(const ParamSpec& p);     // "float in 0..1", "string: memory | disk"
std::string default_of(const ParamSpec& p);  // "default 0.5", "required"
// "transform", "lane compute", "random"
std::vector<std::string> traits(const Spec& s);
// {"needs", "keys", "[C, X, Y, Z]"}: a line for each thing that happens to fields.
std::vector<std::vector<std::string>> fields_of(const Spec& s);
// {"rule", "sigmoid, softmax", "exclude each other"}, {"metrics", "mean", ""}
std::vector<std::vector<std::string>> rules_of(const Spec& s);
std::string example(const Spec& s);  // "\"flip\": { \"type\": ..., \"in\": \"load\" }"

}  // namespace sluice::assist
