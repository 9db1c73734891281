#include "engine/graph/field_names.h"

#include <algorithm>

namespace sluice {
namespace {

// Keys of an object, or of every object of a list.
std::vector<std::string> keys_in(const Json& value) {
  std::vector<std::string> keys;
  const auto add = [&](const Json& object) {
    if (!object.is_object()) return;
    for (const auto& [key, unused] : object.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  };
  if (value.is_array())
    for (const Json& entry : value) add(entry);
  else
    add(value);
  return keys;
}

}  // namespace

std::vector<std::string> strings_in(const Json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  std::vector<std::string> out;
  if (value.is_array())
    for (const Json& entry : value)
      if (entry.is_string()) out.push_back(entry.get<std::string>());
  return out;
}

bool holds(const FieldRule& rule, const Json& of_when) {
  if (rule.when.empty()) return true;
  const bool is_set =
      !of_when.is_null() && !(of_when.is_string() && of_when.get_ref<const std::string&>().empty());
  return (rule.value.is_null() ? is_set : of_when == rule.value) != rule.unless;
}

std::vector<std::string> field_names(const std::string& text, const Json& params) {
  if (!text.starts_with('@')) return {text};
  const auto names = [&](const std::string& part) { return field_names(part, params); };
  const auto param = [&](const std::string& name) { return params.value(name, Json()); };
  if (text.ends_with("{}")) return keys_in(param(text.substr(1, text.size() - 3)));
  if (const auto number = text.find('#'); number != std::string::npos) {  // @key#numbers
    const Json numbers = param(text.substr(number + 1));
    std::vector<std::string> all;
    for (const std::string& base : names(text.substr(0, number)))
      for (const Json& n : numbers.is_array() ? numbers : Json::array({numbers}))
        all.push_back(base + "_" + n.dump());
    return all;
  }
  // @keys@postfix; what stands behind "@=" is a text: @keys@=_heatmap
  if (const auto join = text.find('@', 1); join != std::string::npos) {
    std::vector<std::string> all;
    for (const std::string& front : names(text.substr(0, join)))
      for (const std::string& back : names(text.substr(join))) all.push_back(front + back);
    return all;
  }
  if (text.starts_with("@=")) return {text.substr(2)};
  return strings_in(param(text.substr(1)));
}

}  // namespace sluice
