#include "engine/schema.h"

#include "engine/graph.h"

namespace sluice {
namespace {

Json ref(const std::string& name) { return {{"$ref", "#/definitions/" + name}}; }

Json either(Json a, Json b) { return {{"anyOf", Json::array({std::move(a), std::move(b)})}}; }

// An object with these members, "x-..." and "ui", and nothing else.
Json closed(Json properties) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"patternProperties", {{"^(x-.*|ui)$", Json::object()}}},
          {"additionalProperties", false}};
}

// A parameter's value as its type spells it: "list<int>?", with "@name" wherever a value stands.
Json value_schema(std::string_view type, const ParamSpec& p) {
  if (type.ends_with('?'))
    return either({{"type", "null"}}, value_schema(type.substr(0, type.size() - 1), p));
  if (type.starts_with("list<")) {
    const Json inner = value_schema(type.substr(5, type.size() - 6), p);
    return either({{"type", "array"}, {"items", inner}}, inner);
  }
  if (type == "json") return Json::object();
  Json j;
  if (type == "int" || type == "float") {
    j["type"] = type == "int" ? "integer" : "number";
    if (p.min) j["minimum"] = *p.min;
    if (p.max) j["maximum"] = *p.max;
  } else if (type == "bool") {
    j["type"] = "boolean";
  } else {
    j["type"] = "string";
    if (!p.choices.empty()) j["enum"] = p.choices;
  }
  return either(std::move(j), ref("reference"));
}

Json param_schema(const ParamSpec& p) {
  Json j = value_schema(p.type, p);
  j["description"] = p.doc;
  j["markdownDescription"] = p.doc + "\n\n`" + p.type + "`" +
                             (p.required ? ", required" : ", default `" + p.fallback.dump() + "`");
  if (!p.required) j["default"] = p.fallback;
  return j;
}

void add_params(const Spec& spec, Json& properties, Json& required) {
  for (const auto& p : spec.params) {
    properties[p.name] = param_schema(p);
    if (p.required) required.push_back(p.name);
  }
}

Json described(const char* type, const char* text) {
  return {{"anyOf", Json::array({Json{{"type", type}}, ref("reference")})}, {"description", text}};
}

// What stands in every node beside its parameters.
Json node_settings(const Spec& spec) {
  Json j = {{"type", {{"const", spec.name}, {"description", spec.doc}}},
            {"desc", described("string", "What it is for.")},
            {"disabled", described("boolean", "Leaves the node out.")},
            {"lane", {{"enum", {"compute", "io", "step"}}, {"description", "Where it runs."}}},
            {"on_error",
             {{"enum", {"fail", "quarantine"}}, {"description", "What a failing sample does."}}},
            {"max_bad", described("integer", "Quarantined samples before the run fails.")},
            {"requires",
             either({{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}})}};
  if (spec.arity == Arity::source) {
    j["after"] = described("string", "The updater whose epochs it waits for.");
    j["every_epochs"] = described("integer", "After every so many of them.");
  } else {
    Json ports = Json::object();
    for (const auto& p : spec.ins) ports[p.name] = {{"type", "string"}, {"description", p.doc}};
    j["in"] = either({{"type", "string"}},
                     {{"type", "object"}, {"properties", ports}, {"additionalProperties", false}});
  }
  return j;
}

Json type_schema(const Spec& spec) {
  Json properties = spec.is_network ? Json{{"type", {{"const", spec.name}}},
                                           {"desc", described("string", "What it is for.")},
                                           {"weights", described("string", "What to begin with.")}}
                                    : node_settings(spec);
  Json required = Json::array({"type"});
  add_params(spec, properties, required);
  Json j = closed(std::move(properties));
  j["required"] = std::move(required);
  j["description"] = spec.doc;
  return j;
}

// An object whose "type" says which of the definitions it is.
Json by_type(const Catalogue& catalogue, bool networks, Json& definitions) {
  Json names = Json::array(), cases = Json::array();
  for (const auto& spec : catalogue.all()) {
    if (spec->is_network != networks) continue;
    const std::string key = (networks ? "network." : "node.") + spec->name;
    definitions[key] = type_schema(*spec);
    names.push_back(spec->name);
    cases.push_back(
        {{"if", {{"properties", {{"type", {{"const", spec->name}}}}}}}, {"then", ref(key)}});
  }
  Json typed = {{"type", "object"},
                {"required", {"type"}},
                {"properties", {{"type", {{"enum", std::move(names)}}}}},
                {"allOf", std::move(cases)}};
  if (networks) return typed;
  // A use of a part: its parameters are the part's own.
  Json use = {{"type", "object"}, {"required", {"part"}}, {"not", {{"required", {"type"}}}}};
  return {{"if", {{"required", {"part"}}}}, {"then", std::move(use)}, {"else", std::move(typed)}};
}

Json run_schema() {
  Json properties = Json::object(), required = Json::array();
  add_params(run_spec(), properties, required);
  const Json number = either({{"type", "number"}}, ref("reference"));
  const Json count = either({{"type", "integer"}, {"minimum", 0}}, ref("reference"));
  Json stop = closed({{"metric", described("string", "\"node.metric\"")},
                      {"at_least", number},
                      {"at_most", number}});
  stop["required"] = {"metric"};
  properties["stop"] = either(std::move(stop), ref("reference"));
  properties["checkpoint"] =
      either(closed({{"every_epochs", count}, {"keep", count}}), ref("reference"));
  return closed(std::move(properties));
}

Json part_schema() {
  const Json name = {{"type", "string"}};
  Json j = closed({{"in", either(name, {{"type", "array"}, {"items", name}})},
                   {"out", either(name, {{"type", "object"}, {"additionalProperties", name}})},
                   {"params", {{"type", "object"}}},
                   {"desc", name},
                   {"nodes", {{"type", "object"}, {"additionalProperties", ref("node")}}}});
  j["required"] = {"nodes"};
  return j;
}

}  // namespace

Json graph_schema(const Catalogue& catalogue) {
  Json definitions = {
      {"reference",
       {{"type", "string"}, {"pattern", "^@"}, {"description", "A variable: \"@name\"."}}}};
  Json node = by_type(catalogue, false, definitions);
  definitions["network"] = by_type(catalogue, true, definitions);
  definitions["node"] = std::move(node);
  definitions["part"] = part_schema();
  const auto map_of = [](const char* name) {
    return Json{{"type", "object"}, {"additionalProperties", ref(name)}};
  };
  Json nodes = map_of("node");
  nodes["minProperties"] = 1;
  Json j = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Sluice graph"}};
  j.update(closed(
      {{"$schema", {{"type", "string"}}},
       {"name", {{"type", "string"}}},
       {"desc", {{"type", "string"}}},
       {"vars", {{"type", "object"}}},
       {"run", run_schema()},
       {"models", map_of("network")},
       {"parts",
        {{"type", "object"}, {"additionalProperties", either(ref("part"), {{"type", "string"}})}}},
       {"nodes", std::move(nodes)}}));
  j["required"] = {"nodes"};
  j["definitions"] = std::move(definitions);
  return j;
}

}  // namespace sluice
