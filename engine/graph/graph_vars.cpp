// Variables: "@name" as a whole value.
#include <algorithm>

#include "engine/graph/graph_reader.h"

namespace sluice::reading {
namespace {

// Looks "@name" up; null where there is no such name.
using Lookup = std::function<const Binding*(const std::string&)>;

struct Resolver {
  Reading& reading;
  const Lookup& lookup;
  std::function<std::vector<std::string>()> known;  // for suggestions
  bool partial = false;  // unknown names may be known in truth: nothing is said of them
  std::vector<Origin> origins;

  std::optional<Json> operator()(const Json& value, const Place& place, const std::string& path,
                                 const std::string& at = "") {
    if (!spend(value)) return std::nullopt;
    if (reading.has_refused) {
      const Place at = place.origin();
      if (at.document->refused.count(at.pointer)) return std::nullopt;
    }
    if (value.is_string()) return string(value, place, path, at);
    if (!value.is_structured()) return value;
    return value.is_array() ? list(value, place, path, at) : object(value, place, path, at);
  }

 private:
  std::optional<Json> list(const Json& value, const Place& place, const std::string& path,
                           const std::string& at) {
    Json out = Json::array();
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string index = std::to_string(i);
      if (auto resolved = (*this)(value[i], place.child(i), path + "." + index, at + "/" + index))
        out.push_back(std::move(*resolved));
    }
    if (out.size() != value.size()) return std::nullopt;
    return out;
  }

  std::optional<Json> object(const Json& value, const Place& place, const std::string& path,
                             const std::string& at) {
    Json out = Json::object();
    for (const auto& [key, element] : value.items())
      if (auto resolved = (*this)(element, place.child(key), path + "." + key,
                                  Place{nullptr, at}.child(key).pointer))
        out.get_ref<Json::object_t&>().emplace_back(key, std::move(*resolved));
    if (out.size() != value.size()) return std::nullopt;
    return out;
  }

  std::optional<Json> string(const Json& value, const Place& place, const std::string& path,
                             const std::string& at) {
    const auto& text = value.get_ref<const std::string&>();
    if (!text.starts_with('@')) return value;
    const std::string name = text.substr(1);
    const Binding* binding = lookup(name);
    if (!binding) {
      if (!partial) unknown(name, place, path);
      return std::nullopt;
    }
    origins.push_back({at, binding->place, binding->path});
    if (binding->value && !spend_all(*binding->value)) return std::nullopt;
    return binding->value;
  }

  void unknown(const std::string& name, const Place& place, const std::string& path) {
    const auto names = known();
    const std::string best = nearest(name, names);
    std::string hint = best.empty() ? "" : "did you mean \"@" + best + "\"?";
    const Json* nodes = reading.top.find("nodes");
    const std::string bare = "a node is named without the @: \"" + name + "\"";
    if (nodes && nodes->is_object() && nodes->contains(name))
      hint += hint.empty() ? bare : " (" + bare + ")";
    else if (names.empty() && !reading.top.find("vars"))
      hint = "the graph has no \"vars\"";
    reading.diagnostics.error_once("SL0205", "unknown variable \"@" + name + "\"", place, path,
                                   hint);
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

Binding* find(Bindings* bindings, const std::string& name) {
  if (!bindings) return nullptr;
  const auto at = bindings->find(name);
  if (at == bindings->end()) return nullptr;
  at->second.used = true;
  return &at->second;
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
      : reading_(reading), vars_(vars), place_(reading.top.place("vars")) {
    for (const auto& [name, value] : vars_.items()) values_.emplace(name, &value);
  }

  void run() {
    for (const auto& [name, value] : vars_.items()) get(name);
  }

 private:
  const Binding* get(const std::string& name) {
    const auto written = values_.find(name);
    if (written == values_.end()) return nullptr;
    const auto [at, is_new] = reading_.vars.try_emplace(name);
    Binding& binding = at->second;
    if (is_new) {
      binding.place = place_.child(name);
      binding.path = "vars." + name;
      read(name, *written->second, binding);
    } else if (const auto first = std::find(open_.begin(), open_.end(), name);
               first != open_.end()) {
      std::string circle;
      for (auto n = first; n != open_.end(); ++n) circle += "@" + *n + " -> ";
      reading_.error("SL0214", "variables refer to each other in a circle: " + circle + "@" + name,
                     place_.child(*first), "vars." + *first);
    }
    return &binding;
  }

  void read(const std::string& name, const Json& written, Binding& binding) {
    if (open_.size() == max_chain) {
      reading_.error("SL0104", "more than 64 variables refer to each other in a row", binding.place,
                     binding.path);
      return;
    }
    open_.push_back(name);
    const Lookup lookup = [&](const std::string& n) {
      const Binding* found = get(n);
      if (found && n != name) reading_.vars.at(n).used = true;
      return found;
    };
    // One that is being defined would only close a circle.
    const auto others = [this] {
      std::vector<std::string> names = keys_of(vars_);
      std::erase_if(names, [this](const std::string& n) {
        return std::find(open_.begin(), open_.end(), n) != open_.end();
      });
      return names;
    };
    Resolver resolve{reading_, lookup, others};
    binding.value = resolve(written, binding.place, binding.path);
    open_.pop_back();
    // A variable whose value is another variable: diagnostics name the place of the other one.
    if (written.is_string() && !resolve.origins.empty()) {
      binding.place = resolve.origins.front().place;
      binding.path = resolve.origins.front().path;
    }
  }

  static constexpr std::size_t max_chain = 64;

  Reading& reading_;
  const Json& vars_;
  Place place_;
  std::map<std::string, const Json*, std::less<>> values_;
  std::vector<std::string> open_;
};

}  // namespace

void read_variables(Reading& reading) {
  const Json* vars = reading.top.find("vars");
  if (!vars) return;
  reading.vars_partial =
      !expect_object(reading, *vars, reading.top.place("vars"), "vars", "\"name\": value");
  if (!reading.vars_partial) VariableReader(reading, *vars).run();
}

Field resolve_field(Reading& reading, std::string key, const Json& value, const Place& place,
                    const std::string& path, const Scope& scope) {
  const Lookup lookup = [&](const std::string& name) {
    const Binding* param = find(scope.params, name);
    return param ? param : find(scope.vars, name);
  };
  Resolver resolver{reading, lookup, [&] { return names_of(scope); }, scope.partial, {}};
  auto resolved = resolver(value, place, path);
  return {std::move(key), std::move(resolved), place, std::move(resolver.origins)};
}

Bindings bind_values(Reading& reading, const Json& object, const Place& place,
                     const std::string& path, const Scope& scope) {
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
