#include "tools/runtime/bundle/translate.h"

#include <algorithm>
#include <cmath>

#include "engine/graph/named_choice.h"
#include "engine/graph/type_names.h"

namespace sluice::bundle {

std::string class_name(const std::string& target);

namespace {

// A text in the spelling of the parameter's choices; lists element by element.
Json spelled(const Json& value, const ParamSpec& param) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const auto& element : value) out.push_back(spelled(element, param));
    return out;
  }
  if (!value.is_string()) return value;
  for (const auto& choice : param.choices)
    if (lower_case(choice) == lower_case(value.get<std::string>())) return choice;
  return value;
}

// What the table's rows say of a parameter.
struct Known {
  std::string name;  // its name here
  bool dropped = false, harmless = false;
};
Known known_param(const Item& component, const std::string& key, const std::optional<Json>& value) {
  const std::string short_name = class_name(component.target()),
                    full = last_name(component.target());
  Known known{key};
  for (const ParamRow& row : param_rows()) {
    const bool is_meant = row.name.starts_with('*') ? short_name.ends_with(row.name.substr(1))
                          : row.name.ends_with('*')
                              ? full.starts_with(row.name.substr(0, row.name.size() - 1))
                              : row.name == short_name || row.name == full;
    if (row.param != key || !is_meant) continue;
    if (!row.here.empty()) known.name = row.here;
    if (row.here.empty() && row.harmless.empty()) known.dropped = true;
    if (!row.harmless.empty() && value && *value == Json::parse(row.harmless))
      known.harmless = true;
  }
  return known;
}

bool is_finite(const Json& json) {
  if (json.is_structured())
    return std::all_of(json.begin(), json.end(), [](const Json& one) { return is_finite(one); });
  return !json.is_number_float() || std::isfinite(json.get<double>());
}

}  // namespace

// "RandFlip" of "monai.transforms.RandFlipd".
std::string class_name(const std::string& target) {
  std::string name = last_name(target);
  for (const char* mark : {"Dict", "d", "D"})
    if (name.size() > 4 && name.ends_with(mark)) {
      name.resize(name.size() - std::strlen(mark));
      return name;
    }
  return name;
}

std::string Translator::type_of(const std::string& target) const {
  for (const std::string& name : {last_name(target), class_name(target)}) {
    for (const ClassRow& row : class_rows())
      if (row.name == name && catalogue_.find(row.type)) return std::string(row.type);
  }
  return type_for_class(target, types_);
}

std::string Translator::comment_of(const Item& item) const {
  std::string id = item.id;
  std::replace(id.begin(), id.end(), '#', '.');
  return item.at.file + ":" + std::to_string(item.at.line) + " " + id +
         (item.target().empty() ? "" : " (" + last_name(item.target()) + ")");
}

void Translator::missing(const Item& item, const std::string& text, bool blocks) {
  report.add(item, last_name(item.target()), Fate::missing, text, blocks);
}

void Translator::rest(const Item& component, const std::string& why, bool blocks) {
  for (const auto& [key, member] : component.members) {
    if (values.is_asked(*member)) continue;
    std::optional<Json> value;
    try {
      value = values.of(member).json();
    } catch (const Refused&) {  // code of its own
    }
    const Known known = known_param(component, key, value);
    if (!known.dropped && !known.harmless)
      report.add(*member, last_name(component.target()) + "." + key, Fate::missing, why, blocks);
  }
}

// Norms that are another's arithmetic by another library, or over several processes.
void Translator::known_norm(const Item& member, const std::string& what, const ParamSpec& param,
                            Json& value) {
  Json& name = value.is_array() && !value.empty() ? value[0] : value;
  const auto is_choice = [&](const char* norm) {
    return std::find(param.choices.begin(), param.choices.end(), norm) != param.choices.end();
  };
  if (!name.is_string() || !is_choice("instance") || !is_choice("batch")) return;
  const std::string given = lower_case(name.get<std::string>());
  if (given == "instance_nvfuser")
    name = "instance";
  else if (given == "syncbatch")
    name = "batch";
  else
    return;
  report.add(member, what, Fate::replaced,
             "by " + name.get<std::string>() +
                 (given == "syncbatch" ? ": the same sums, of the batch of one process"
                                       : ": the same sums, without apex"));
}

std::string Translator::node_name(const std::string& wanted) const {
  const auto taken = [&](const std::string& name) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Entry& e) { return e.name == name; });
  };
  std::string name = wanted;
  for (int n = 2; taken(name); ++n) name = wanted + std::to_string(n);
  return name;
}

std::string Translator::add_node(const std::string& name, Json body, const std::string& comment) {
  const std::string own = node_name(name);
  graph.nodes.push_back({own, std::move(body), comment});
  return own;
}

void Translator::fill(const Item& component, const Spec& spec, Json& body, bool blocks,
                      PerKey* per_key) {
  const std::string full = last_name(component.target());
  std::size_t keys = 1;
  if (component.find("keys"))
    if (const auto json = values.of(component, "keys").json(); json && json->is_array())
      keys = json->size();
  for (const auto& [key, member] : component.members) {
    if (body.contains(key)) continue;
    try {
      const Value value = values.of(member);
      auto json = value.json();
      if (key == "lazy" && json == Json(true) && graph.run.contains("lazy")) continue;
      const auto [name, dropping, harmless] = known_param(component, key, json);
      const ParamSpec* param = spec.find_param(name);
      // A value that the parameter takes is said, also where it is the default.
      if (harmless && (!param || param->reject(spelled(*json, *param)))) continue;
      if (!param && dropping) continue;
      if (!param) {
        report.add(*member, full + "." + key, Fate::missing,
                   "the type \"" + spec.name + "\" has no such parameter", blocks);
        continue;
      }
      if (!json) {
        if (dropping) continue;
        report.add(*member, full + "." + key, Fate::missing,
                   value.describe() + " is no value for \"" + param->name + "\"", blocks);
        continue;
      }
      if (spec.is_network) known_norm(*member, full + "." + key, *param, *json);
      Json here = spelled(*json, *param);
      if (param->type == "bool" && here.is_string()) here = values.is_true(member, value);
      if (!is_finite(here)) {
        report.add(*member, full + "." + key, Fate::missing, "a graph has no such number", blocks);
        continue;
      }
      const auto refusal = param->reject(here);
      if (!refusal) {
        body[param->name] = std::move(here);
        continue;
      }
      const auto takes = [&](const Json& one) { return one.is_null() || !param->reject(one); };
      if (per_key && here.is_array() && keys > 1 && here.size() == keys &&
          std::all_of(here.begin(), here.end(), takes)) {
        per_key->emplace_back(param->name, here);
        continue;
      }
      if (here.is_array() && here.size() == 1 && takes(here[0])) {
        if (!here[0].is_null()) body[param->name] = here[0];
        continue;
      }
      if (here.is_null()) continue;  // MONAI's "not given"
      if (dropping) continue;
      report.add(*member, full + "." + key, Fate::missing,
                 "\"" + spec.name + "." + param->name + "\": " + refusal->text, blocks);
    } catch (const Refused& refused) {
      report.add(*member, full + "." + key, Fate::missing, refused.what(), blocks);
    }
  }
  if (spec.find_param("spatial_dims") && !spec.is_network && dims_ != 3 &&
      !body.contains("spatial_dims"))
    body["spatial_dims"] = dims_;
  for (const DefaultRow& row : default_rows())
    if (row.type == spec.name && spec.find_param(row.param) &&
        !body.contains(std::string(row.param)))
      body[std::string(row.param)] = Json::parse(row.value);
}

std::string Translator::emit(const Item& component, const std::string& type, Json body, bool blocks,
                             const std::string& name) {
  const Spec& spec = *catalogue_.find(type);
  PerKey per_key;
  Json filled = {{"type", type}};
  filled.update(body);
  if (!field_.empty() && spec.find_param("keys") && !component.find("keys"))
    filled["keys"] = field_;
  fill(component, spec, filled, blocks, &per_key);
  report.add(component, last_name(component.target()), Fate::translated, type);
  const std::string own = name.empty() ? type : name;
  if (per_key.empty()) return add_node(own, std::move(filled), comment_of(component));
  // A parameter with a value for each key, of a type that has one value: a node for each key.
  std::string in = filled["in"];
  const Json keys = filled["keys"];
  for (std::size_t k = 0; k < keys.size(); ++k) {
    Json one = filled;
    one["in"] = in;
    one["keys"] = keys[k];
    for (const auto& [param, list] : per_key)
      if (!list[k].is_null()) one[param] = list[k];
    for (const auto& [param, value] : filled.items()) {
      const ParamSpec* p = spec.find_param(param);
      if (p && value.is_array() && value.size() == keys.size() && param != "keys" &&
          p->type.starts_with("list") && !p->reject(value[k]) &&
          std::any_of(spec.param_rules.begin(), spec.param_rules.end(),
                      [&](const ParamRule& rule) { return rule.a == param && rule.b == "keys"; }))
        one[param] = value[k];
    }
    in = add_node(own, std::move(one), comment_of(component));
  }
  return in;
}

}  // namespace sluice::bundle
