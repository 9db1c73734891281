// JSON as the engine reads and writes it: an object keeps its keys in the order of the text.
#pragma once

#include <nlohmann/json.hpp>

namespace sluice {

using Json = nlohmann::ordered_json;

}  // namespace sluice
