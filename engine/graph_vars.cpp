// Variables: "@name" as a whole value.
#include <algorithm>

#include "engine/graph_reader.h"

namespace sluice::reading {
namespace {

// Looks "@name" up; null where there is no such name.
using Lookup = std::function<const Binding*(const std::string&)>;

struct Resolver {
  Reading& reading;
  const Lookup& lookup;
  std::function<std::vector<std::string>()> known;  // for suggestions
  const Binding* last = nullptr;  // the binding used last, for the origin of a whole value

  std::optional<Json> operator()(const Json& value, const Place& place, const std::string& path) {
    if (!spend(value)) return std::nullopt;
    if (value.is_string()) return string(value, place, path);
    if (!value.is_structured()) return value;
    Json out = value.is_array() ? Json::array() : Json::object();
    bool complete = true;
    std::size_t index = 0;
    for (const auto& [key, element] : value.items()) {
      const bool in_list = value.is_array();
      const Place at = in_list ? place.child(index++) : place.child(key);
      auto resolved = (*this)(element, at, path + "." + key);
      complete &= resolved.has_value();
      if (!resolved) continue;
      if (in_list)
        out.push_back(std::move(*resolved));
      else
        out[key] = std::move(*resolved);
    }
    if (!complete) return std::nullopt;
    return out;
  }

 private:
  std::optional<Json> string(const Json& value, const Place& place, const std::string& path) {
    const auto& text = value.get_ref<const std::string&>();
    if (!text.starts_with('@')) return value;
    const std::string name = text.substr(1);
    const Binding* binding = lookup(name);
    if (!binding) {
      const std::string best = nearest(name, known());
      reading.error("SL0205", "unknown variable \"" + text + "\"", place, path,
                    best.empty() ? "" : "did you mean \"@" + best + "\"?");
      return std::nullopt;
    }
    last = binding;
    if (binding->value && !spend_all(*binding->value)) return std::nullopt;
    return binding->value;
  }

  // Lists of references to lists of references grow without bound; a budget ends that.
  bool spend(const Json& value) {
    const std::size_t cost =
        16 + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
    if (reading.budget < cost) {
      reading.error("SL0215", "variables and parts expand to more than 50 MB",
                    {reading.document, ""}, "");
      return false;
    }
    reading.budget -= cost;
    return true;
  }
  bool spend_all(const Json& value) {
    if (!spend(value)) return false;
    if (value.is_structured())
      for (const auto& element : value)
        if (!spend_all(element)) return false;
    return true;
  }
};

const Binding* find(const Bindings* bindings, const std::string& name) {
  if (!bindings) return nullptr;
  const auto at = bindings->find(name);
  return at == bindings->end() ? nullptr : &at->second;
}

std::vector<std::string> names_of(const Scope& scope) {
  std::vector<std::string> names;
  for (const Bindings* b : {scope.params, scope.vars})
    if (b)
      for (const auto& [name, binding] : *b) names.push_back(name);
  return names;
}

// Variables may refer to each other, so each is resolved when it is first needed.
class VariableReader {
 public:
  VariableReader(Reading& reading, const Json& vars)
      : reading_(reading), vars_(vars), place_{reading.document, "/vars"} {}

  void run() {
    for (const auto& [name, value] : vars_.items()) get(name);
  }

 private:
  const Binding* get(const std::string& name) {
    if (!vars_.contains(name)) return nullptr;
    const auto [at, is_new] = reading_.vars.try_emplace(name);
    Binding& binding = at->second;
    if (is_new) {
      binding.place = place_.child(name);
      binding.path = "vars." + name;
      read(name, binding);
    } else if (const auto first = std::find(open_.begin(), open_.end(), name);
               first != open_.end()) {
      std::string circle;
      for (auto n = first; n != open_.end(); ++n) circle += "@" + *n + " -> ";
      reading_.error("SL0214", "variables refer to each other in a circle: " + circle + "@" + name,
                     binding.place, binding.path);
    }
    return &binding;
  }

  void read(const std::string& name, Binding& binding) {
    if (open_.size() == max_chain) {
      reading_.error("SL0104", "more than 64 variables refer to each other in a row", binding.place,
                     binding.path);
      return;
    }
    open_.push_back(name);
    const Lookup lookup = [this](const std::string& n) { return get(n); };
    Resolver resolve{reading_, lookup, [this] { return keys_of(vars_); }};
    binding.value = resolve(vars_.at(name), binding.place, binding.path);
    open_.pop_back();
  }

  static constexpr std::size_t max_chain = 64;

  Reading& reading_;
  const Json& vars_;
  Place place_;
  std::vector<std::string> open_;
};

}  // namespace

void read_variables(Reading& reading) {
  const Json& root = reading.document->root;
  if (!root.contains("vars")) return;
  if (!expect_object(reading, root["vars"], {reading.document, "/vars"}, "vars")) return;
  VariableReader(reading, root["vars"]).run();
}

Field resolve_field(Reading& reading, std::string key, const Json& value, const Place& place,
                    const std::string& path, const Scope& scope) {
  const Lookup lookup = [&](const std::string& name) {
    const Binding* param = find(scope.params, name);
    return param ? param : find(scope.vars, name);
  };
  Resolver resolver{reading, lookup, [&] { return names_of(scope); }};
  Field field{std::move(key), resolver(value, place, path), place, ""};
  if (value.is_string() && resolver.last)
    field.origin =
        "the value comes from " + resolver.last->path + " at " + resolver.last->place.str();
  return field;
}

Bindings bind(Reading& reading, const Json& object, const Place& place, const std::string& path,
              const Scope& scope) {
  Bindings bindings;
  for (const auto& [key, value] : object.items()) {
    const Place at = place.child(key);
    Field field = resolve_field(reading, key, value, at, path + "." + key, scope);
    bindings[key] = {std::move(field.value), at, path + "." + key};
  }
  return bindings;
}

Written read_object(Reading& reading, const Json& object, const Place& place,
                    const std::string& path, const Scope& scope) {
  Written written{path, place, {}};
  for (const auto& [key, value] : object.items())
    if (!is_ignored(key))
      written.fields.push_back(
          resolve_field(reading, key, value, place.child(key), path + "." + key, scope));
  return written;
}

}  // namespace sluice::reading
