#include "engine/graph/schema.h"

#include "engine/graph/graph.h"
#include "engine/graph/inner_nodes.h"
#include "engine/graph/named_choice.h"

namespace sluice {
namespace {

using Choices = std::vector<Json>;

Json ref(const std::string& name) { return {{"$ref", "#/definitions/" + name}}; }

// One of several schemas.
Json any_of(Choices all) {
  if (all.size() == 1) return all.front();
  return {{"anyOf", std::move(all)}};
}

// An object with these members, "x-..." and "ui", and nothing else.
Json closed(Json properties) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"patternProperties", {{"^(x-.*|ui)$", Json::object()}}},
          {"additionalProperties", false}};
}

const Json text = {{"type", "string"}};

// A map from names to what `definition` describes.
Json map_of(const char* definition, const char* pattern) {
  return {{"type", "object"},
          {"propertyNames", {{"pattern", pattern}}},
          {"additionalProperties", ref(definition)}};
}
constexpr const char* plain_name = "^[A-Za-z0-9_-]+$";
constexpr const char* node_name = "^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$";

// ---- parameters ---------------------------------------------------------------------------------

Json number_schema(const ParamSpec& p, bool whole) {
  Json j = {{"type", whole ? "integer" : "number"}};
  if (whole) j["minimum"] = std::numeric_limits<std::int64_t>::min();
  if (whole) j["maximum"] = std::numeric_limits<std::int64_t>::max();
  if (p.min) j["minimum"] = *p.min;
  if (p.max) j["maximum"] = *p.max;
  if (p.above) j["exclusiveMinimum"] = *p.above;
  if (p.below) j["exclusiveMaximum"] = *p.below;
  if (p.odd) j["not"] = {{"multipleOf", 2}};
  return j;
}

// One of the choices in any case, alone or before its arguments; what else a value may be, its
// reader says.
Json named_choice(const ParamSpec& p) {
  std::string pattern;
  for (const std::string& choice : p.choices) {
    pattern += pattern.empty() ? "^(" : "|";
    for (const char c : lower_case(choice)) {
      const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      pattern += upper == c ? std::string(1, c) : std::string{'[', c, upper, ']'};
    }
  }
  const Json name = {{"if", {{"type", "string"}}},
                     {"then", any_of({{{"pattern", pattern + ")$"}}, ref("reference")})}};
  Json j = name;
  j["else"] = {{"if", {{"type", "array"}}}, {"then", {{"items", Json::array({name})}}}};
  return j;
}

// What a value of this type may be, as the type spells it: "list<int>?".
void alternatives(std::string_view type, const ParamSpec& p, bool outermost, Choices& all) {
  if (type.ends_with('?')) {
    all.push_back({{"type", "null"}});
    return alternatives(type.substr(0, type.size() - 1), p, outermost, all);
  }
  if (type.starts_with("list<")) {
    const auto inner = type.substr(5, type.size() - 6);
    Choices elements;
    alternatives(inner, p, false, elements);
    elements.push_back(ref("reference"));
    Json list = {{"type", "array"}, {"items", any_of(elements)}};
    if (outermost && p.shortest) list["minItems"] = *p.shortest;
    if (outermost && p.longest) list["maxItems"] = *p.longest;
    all.push_back(std::move(list));
    // A single value stands for a list of one.
    if (!outermost || p.shortest.value_or(0) <= 1) alternatives(inner, p, false, all);
  } else if (type == "int" || type == "float") {
    all.push_back(number_schema(p, type == "int"));
  } else if (type == "bool") {
    all.push_back({{"type", "boolean"}});
  } else if (type == "json") {
    all.push_back(takes_a_name(p) ? named_choice(p) : Json::object());
  } else if (!p.choices.empty()) {
    all.push_back({{"type", "string"}, {"enum", p.choices}});
  } else {
    all.push_back(text);
  }
}

Json param_schema(const ParamSpec& p) {
  Json j = Json::object();
  if (p.type != "json" || takes_a_name(p)) {
    Choices all;
    alternatives(p.type, p, true, all);
    all.push_back(ref("reference"));
    j = any_of(std::move(all));
  } else if (holds_nodes(p)) {
    if (p.shortest) j["minItems"] = *p.shortest;
    j["allOf"] = Json::array({ref(holds_a_step(p) ? "in_step" : "inside")});
  } else if (p.members) {
    j["allOf"] = Json::array({ref(p.name)});
  }
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

// That a parameter is there and is neither null nor what stands for "none".
Json is_set(const std::string& name, bool literally) {
  Choices none{{{"enum", {nullptr, false, "", Json::array()}}}};
  if (literally) none.push_back(ref("reference"));
  return {{"required", {name}}, {"properties", {{name, {{"not", any_of(none)}}}}}};
}

// Rules between two parameters whose defaults stand for "none". What a variable holds is not known
// here, so a reference counts where a parameter must be set, and not where it must not.
void add_rules(const Spec& spec, Json& schema) {
  Json all = Json::array();
  for (const ParamRule& r : spec.param_rules) {
    if (r.kind != ParamRule::Kind::exclusive && r.kind != ParamRule::Kind::one_of) continue;
    all.push_back({{"not", {{"allOf", {is_set(r.a, true), is_set(r.b, true)}}}}});
    if (r.kind == ParamRule::Kind::one_of)
      all.push_back(any_of({is_set(r.a, false), is_set(r.b, false)}));
  }
  if (!all.empty()) schema["allOf"] = std::move(all);
}

// The object that a Spec describes, with more members beside its parameters.
Json object_schema(const Spec& spec, Json properties, Json required) {
  add_params(spec, properties, required);
  // Each of these is at least 1.
  if (!spec.count_param.empty()) {
    ParamSpec count = *spec.find_param(spec.count_param);
    count.min = std::max(1.0, count.min.value_or(1));
    properties[count.name] = param_schema(count);
  }
  Json j = closed(std::move(properties));
  if (!required.empty()) j["required"] = std::move(required);
  add_rules(spec, j);
  j["description"] = spec.doc;
  return j;
}

// ---- nodes and networks -------------------------------------------------------------------------

// "node" where that connects all that must be, or an object of them.
Json inputs_schema(const Spec& spec) {
  Json ports = Json::object(), required = Json::array();
  bool first_is_enough = true;
  for (std::size_t i = 0; i < spec.ins.size(); ++i) {
    const PortSpec& p = spec.ins[i];
    ports[p.name] = {{"type", "string"}, {"description", p.doc}};
    if (!p.optional) required.push_back(p.name);
    first_is_enough &= p.optional || i == 0;
  }
  Json object = {{"type", "object"}, {"properties", ports}, {"additionalProperties", false}};
  if (!required.empty()) object["required"] = required;
  Json j = any_of({first_is_enough ? text : ref("reference"), std::move(object)});
  j["description"] = "\"node\", \"node.port\" or {\"port\": \"node.port\"}.";
  return j;
}

Json node_schema(const Spec& spec) {
  Json properties = {{"type", {{"const", spec.name}, {"description", spec.doc}}}};
  Json required = Json::array({"type"});
  if (!spec.ins.empty()) properties["in"] = inputs_schema(spec);
  for (const auto& p : spec.ins)
    if (!p.optional && required.size() == 1) required.push_back("in");
  add_params(node_settings_spec(), properties, required);
  if (spec.arity != Arity::source) {
    properties.erase("after");
    properties.erase("every_epochs");
  }
  Json j = object_schema(spec, std::move(properties), std::move(required));
  if (spec.arity == Arity::source) j["dependencies"] = {{"every_epochs", {"after"}}};
  return j;
}

// A network, a node inside of another one, which has no settings of its own, or a layer.
Json typed_schema(const Spec& spec, Json properties = Json::object()) {
  properties["type"] = {{"const", spec.name}, {"description", spec.doc}};
  Json required = Json::array({"type"});
  if (spec.is_network) add_params(model_settings_spec(), properties, required);
  return object_schema(spec, std::move(properties), std::move(required));
}

// What an editor puts in for a type: all that is required.
Json snippet(const Spec& spec) {
  Json body = {{"type", spec.name}};
  int stop = 1;
  const auto place = [&](const std::string& value) {
    return "${" + std::to_string(stop++) + ":" + value + "}";
  };
  Json ports = Json::object();
  for (const auto& p : spec.ins)
    if (!p.optional) ports[p.name] = place("node");
  if (ports.size() == 1) body["in"] = ports.begin().value();
  if (ports.size() > 1) body["in"] = std::move(ports);
  for (const auto& p : spec.params) {
    if (!p.required) continue;
    const bool is_text = p.type == "string";
    const std::string value = !p.choices.empty()           ? p.choices.front()
                              : is_text                    ? p.name
                              : p.type.starts_with("list") ? "[]"
                              : p.type == "bool"           ? "true"
                                                           : "1";
    body[p.name] = (is_text ? "" : "^") + place(value);  // ^: without quotes
  }
  return {{"label", spec.name}, {"description", spec.doc}, {"body", std::move(body)}};
}

// An object whose "type" says which of some definitions it is.
class ByType {
 public:
  void add(const std::string& type, const std::string& definition) {
    names_.push_back(type);
    // Where the type is missing or a variable, no case holds.
    cases_.push_back(
        {{"if", {{"required", {"type"}}, {"properties", {{"type", {{"const", type}}}}}}},
         {"then", ref(definition)}});
  }
  Json schema(Json snippets) {
    return {{"type", "object"},
            {"required", {"type"}},
            {"properties", {{"type", any_of({{{"enum", std::move(names_)}}, ref("reference")})}}},
            {"allOf", std::move(cases_)},
            {"defaultSnippets", std::move(snippets)}};
  }

 private:
  Json names_ = Json::array(), cases_ = Json::array();
};

// A "node", a "network", or a node "inside" of another one or "in_step", of a step's.
Json by_type(const Catalogue& catalogue, const std::string& kind, Json& definitions) {
  Json snippets = Json::array();
  ByType all;
  for (const auto& spec : catalogue.all()) {
    if (kind == "inside"    ? !may_stand_inside(*spec)
        : kind == "in_step" ? !may_stand_in_step(*spec)
                            : spec->is_network != (kind == "network"))
      continue;
    const std::string key = kind + "." + spec->name;
    definitions[key] = kind == "node" ? node_schema(*spec) : typed_schema(*spec);
    all.add(spec->name, key);
    if (!kind.starts_with("in")) snippets.push_back(snippet(*spec));
  }
  return all.schema(std::move(snippets));
}

// An object of objects by name, each of one of the parameter's types: a network's layers.
Json members_schema(const ParamSpec& p, Json& definitions) {
  const Json names = any_of({text, {{"type", "array"}, {"items", text}}});
  ByType all;
  for (const Spec& spec : *p.members) {
    const std::string key = p.name + "." + spec.name;
    definitions[key] = typed_schema(spec, {{"in", names}, {"desc", text}});
    all.add(spec.name, key);
  }
  const auto object = [](Json then) -> Json {
    return {{"if", {{"type", "object"}}}, {"then", std::move(then)}, {"else", ref("reference")}};
  };
  return object({{"additionalProperties", object(all.schema(Json::array()))}});
}

// ---- parts and the run --------------------------------------------------------------------------

// A use of a part: its parameters are the part's own.
Json use_schema() {
  const Json ports = {{"type", "object"}, {"additionalProperties", text}};
  const Spec& settings = node_settings_spec();
  return {{"type", "object"},
          {"properties",
           {{"part", text},
            {"in", any_of({text, ports})},
            {"desc", param_schema(*settings.find_param("desc"))},
            {"disabled", param_schema(*settings.find_param("disabled"))}}},
          {"not", {{"required", {"type"}}}}};
}

Json part_schema() {
  const Json name = {{"type", "string"}, {"pattern", plain_name}};
  const Json reserved = {"part", "in", "desc", "disabled", "type"};
  Json j =
      closed({{"in", any_of({name, {{"type", "array"}, {"items", name}}})},
              {"out", any_of({text, {{"type", "object"}, {"additionalProperties", text}}})},
              {"params", {{"type", "object"}, {"propertyNames", {{"not", {{"enum", reserved}}}}}}},
              {"desc", text},
              {"nodes", map_of("node", node_name)}});
  j["required"] = {"nodes"};
  return j;
}

Json run_schema() {
  Json properties = Json::object();
  for (const Spec* spec : {&stop_spec(), &checkpoint_spec()})
    properties[spec->name.substr(spec->name.find('.') + 1)] =
        any_of({object_schema(*spec, Json::object(), Json::array()), ref("reference")});
  return object_schema(run_spec(), std::move(properties), Json::array());
}

}  // namespace

Json graph_schema(const Catalogue& catalogue) {
  Json definitions = {
      {"reference",
       {{"type", "string"}, {"pattern", "^@"}, {"description", "A variable: \"@name\"."}}}};
  definitions["network"] = by_type(catalogue, "network", definitions);
  for (const auto& spec : catalogue.all())
    for (const ParamSpec& p : spec->params)
      if (p.members) definitions[p.name] = members_schema(p, definitions);
  Json typed = by_type(catalogue, "node", definitions);
  for (const std::string kind : {"inside", "in_step"}) {
    Json inner = by_type(catalogue, kind, definitions);
    const Json list = {{"type", "array"}, {"items", ref(kind)}};
    definitions[kind] = {{"if", {{"type", "object"}}},
                         {"then", std::move(inner)},
                         {"else", any_of({list, ref("reference")})}};
  }
  definitions["use"] = use_schema();
  definitions["node"] = {
      {"if", {{"required", {"part"}}}}, {"then", ref("use")}, {"else", std::move(typed)}};
  definitions["part"] = part_schema();
  Json nodes = map_of("node", node_name);
  nodes["minProperties"] = 1;
  Json j = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Sluice graph"}};
  j.update(closed(
      {{"$schema", text},
       {"name", text},
       {"desc", text},
       {"vars", {{"type", "object"}}},
       {"run", run_schema()},
       {"models", map_of("network", plain_name)},
       {"parts", {{"type", "object"}, {"additionalProperties", any_of({text, ref("part")})}}},
       {"nodes", std::move(nodes)}}));
  j["required"] = {"nodes"};
  j["definitions"] = std::move(definitions);
  return j;
}

}  // namespace sluice
