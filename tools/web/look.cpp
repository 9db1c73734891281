#include "tools/web/look.h"

#include <algorithm>
#include <map>

#include "engine/judge/dot.h"
#include "tools/assist/complete.h"
#include "tools/assist/describe.h"
#include "tools/assist/edits.h"
#include "tools/assist/names.h"
#include "tools/assist/spot.h"
#include "tools/assist/tell.h"
#include "tools/lsp/lines.h"
#include "tools/web/places.h"

namespace sluice::web {
namespace {

using assist::Analysis;
using assist::Value;
using lsp::Lines;
using Kind = Value::Kind;

const char* name_of(LaneKind lane) {
  static constexpr const char* names[] = {"compute", "io", "step", "copy"};
  return names[static_cast<std::size_t>(lane)];
}

Json fields_of(const assist::Leaving* flow) {
  Json all = Json::array();
  if (flow)
    for (const auto& [name, what] : flow->fields) all.push_back({name, what});
  return all;
}

Json words(const std::vector<std::vector<std::string>>& rows) {
  Json all = Json::array();
  for (const auto& row : rows) all.push_back(row);
  return all;
}

// The names of the pointer's steps.
std::vector<std::string> steps_of(const std::string& pointer) {
  std::vector<std::string> steps;
  for (nlohmann::json_pointer<std::string> p(pointer); !p.empty(); p = p.parent_pointer())
    steps.insert(steps.begin(), p.back());
  return steps;
}

struct Described {
  std::string scope, name;  // the part in which a node stands
};
std::optional<Described> node_at(const std::vector<std::string>& steps) {
  if (steps.size() == 2 && steps[0] == "nodes") return Described{"", steps[1]};
  if (steps.size() == 4 && steps[0] == "parts" && steps[2] == "nodes")
    return Described{steps[1], steps[3]};
  return std::nullopt;
}

// A parameter as a form shows it: what stands there, and where it comes from.
Json shown(const Analysis& a, const ParamSpec& p, const Value* node, const std::string& pointer,
           const std::string& scope) {
  Json j = {{"name", p.name},         {"type", assist::type_of(p)},
            {"kind", p.type},         {"doc", p.doc},
            {"required", p.required}, {"default", p.required ? Json() : p.fallback},
            {"choices", p.choices},   {"pointer", Place{nullptr, pointer}.child(p.name).pointer},
            {"from", "default"}};
  const Value* v = node ? node->find(p.name) : nullptr;
  if (!v || v->is(Kind::missing)) return j;
  j["from"] = "file";
  j["text"] = a.text().substr(v->span.begin, v->span.end - v->span.begin);
  if (!v->is(Kind::text) || !v->text.starts_with('@') || v->text.starts_with("@@")) return j;
  const std::string name = v->text.substr(1);
  j["from"] = "var";
  j["var"] = name;
  const Value* part = assist::find_part(a, scope);
  const Value* given = part ? part->find("params") : nullptr;
  const Value* var = given ? given->find(name) : nullptr;
  Place place{nullptr, ""};
  if (var) {
    place = place.child("parts").child(scope).child("params").child(name);
  } else {
    const Value* vars = a.tree().root.find("vars");
    var = vars ? vars->find(name) : nullptr;
    place = place.child("vars").child(name);
  }
  if (!var) return j;
  j["var_pointer"] = place.pointer;
  j["var_text"] = a.text().substr(var->span.begin, var->span.end - var->span.begin);
  return j;
}

}  // namespace

std::unique_ptr<Analysis> Look::analyse(const std::string& file, const std::string& text) const {
  return assist::analyse(file, text, catalogue_);
}

Json Look::check(const std::string& file, const std::string& text) const {
  const auto a = analyse(file, text);
  const Lines lines(text, false);
  const assist::Bytes bytes(text);
  std::map<const Diagnostic*, Json> fixes;
  for (const auto& fix : assist::fixes(*a))
    if (fix.edit.source == 0)
      fixes.try_emplace(fix.of, Json::array())
          .first->second.push_back({{"title", fix.title},
                                    {"certain", fix.certain},
                                    {"range", lines.range(fix.edit.span)},
                                    {"text", fix.edit.text}});
  Json all = Json::array();
  for (const Diagnostic& d : a->said.diagnostics.all()) {
    const auto fix = fixes.find(&d);
    all.push_back({{"severity", d.severity == Severity::error     ? "error"
                                : d.severity == Severity::warning ? "warning"
                                                                  : "note"},
                   {"code", d.code},
                   {"message", d.message},
                   {"hint", d.hint},
                   {"notes", d.notes},
                   {"path", d.path},
                   {"pointer", d.place.pointer},
                   {"range", lines.range(assist::span_of(d, *a, bytes))},
                   {"fixes", fix == fixes.end() ? Json::array() : fix->second}});
  }
  return {{"graph", a->is_graph},
          {"ok", a->said.diagnostics.ok()},
          {"nodes", a->nodes},
          {"streams", a->streams},
          {"diagnostics", std::move(all)}};
}

Json Look::picture(const std::string& file, const std::string& text, const Json& profile) const {
  const auto a = analyse(file, text);
  if (!a->said.plan) return nullptr;
  const Plan& plan = *a->said.plan;
  const Lines lines(text, false);
  Json nodes = Json::array();
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& n = plan.nodes[i];
    const std::string& pointer = n.graph->place.pointer;
    const auto flow = a->flows.find(pointer);
    const Value* value = assist::at_pointer(a->tree(), pointer);
    Json j = {{"id", "node" + std::to_string(i)},
              {"path", n.path()},
              {"type", n.spec->name},
              {"pointer", pointer},
              {"lane", name_of(n.lane)},
              {"fields", Json::array()}};
    if (flow != a->flows.end()) j["fields"] = fields_of(&flow->second);
    if (value)
      j["range"] =
          lines.range({value->key.empty() ? value->span.begin : value->key.begin, value->span.end});
    nodes.push_back(std::move(j));
  }
  DotOptions how;
  if (profile.is_object()) how.figures = Figures::from_json(plan, profile);
  return {{"svg", draw_(to_dot(plan, how))}, {"nodes", std::move(nodes)}};
}

Json Look::node(const std::string& file, const std::string& text,
                const std::string& pointer) const {
  const auto a = analyse(file, text);
  const auto steps = steps_of(pointer);
  const Value* value = assist::at_pointer(a->tree(), pointer);
  if (!value || !value->is(Kind::object)) return nullptr;
  const Lines lines(text, false);
  const bool is_model = steps.size() == 2 && steps[0] == "models";
  const auto where = node_at(steps);
  const bool is_run = steps.size() == 1 && steps[0] == "run";
  if (!where && !is_model && !is_run) return nullptr;
  const std::string scope = where ? where->scope : "";
  const std::string type = is_run ? "run" : std::string(value->text_of("type"));
  const Spec* spec = is_run ? &run_spec() : catalogue_.find(type);
  Json j = {{"pointer", pointer},
            {"name", value->name},
            {"kind", where      ? "node"
                     : is_model ? "model"
                                : "run"},
            {"type", type},
            {"part", std::string(value->text_of("part"))},
            {"in", where ? assist::inputs_of(*value) : std::vector<std::string>{}},
            {"range", lines.range({value->key.begin, value->span.end})},
            {"params", Json::array()},
            {"settings", Json::array()}};
  if (where) {
    if (const Value* in = value->find("in"); in && !in->is(Kind::missing))
      j["in_text"] = text.substr(in->span.begin, in->span.end - in->span.begin);
    j["out"] = fields_of(assist::leaving(*a, scope, where->name));
    Json in = Json::array();
    for (const auto& from : assist::inputs_of(*value))
      for (auto& field : fields_of(assist::leaving(*a, scope, from))) in.push_back(field);
    j["in_fields"] = std::move(in);
  }
  if (!spec) return j;
  j["about"] = this->type(type);
  for (const ParamSpec& p : spec->params)
    j["params"].push_back(shown(*a, p, value, pointer, scope));
  const Spec* beside = where ? &node_settings_spec() : is_model ? &model_settings_spec() : nullptr;
  if (beside)
    for (const ParamSpec& p : beside->params)
      j["settings"].push_back(shown(*a, p, value, pointer, scope));
  return j;
}

// ---- assist -------------------------------------------------------------------------------------

Json Look::complete(const std::string& file, const std::string& text, const Json& position) const {
  const auto a = analyse(file, text);
  const Lines lines(text, false);
  const auto found = assist::complete(*a, lines.byte(position));
  Json items = Json::array();
  for (const auto& c : found.candidates)
    items.push_back({{"label", c.label},
                     {"kind", static_cast<int>(c.kind)},
                     {"detail", c.detail},
                     {"doc", c.doc},
                     {"text", c.text}});
  return {{"range", lines.range(found.replaces)}, {"items", std::move(items)}};
}

Json Look::hover(const std::string& file, const std::string& text, const Json& position) const {
  const auto a = analyse(file, text);
  const Lines lines(text, false);
  const auto page = assist::hover(*a, lines.byte(position));
  if (!page) return nullptr;
  return {{"range", lines.range(page->span)}, {"markdown", page->markdown}};
}

Json Look::define(const std::string& file, const std::string& text, const Json& position) const {
  const auto a = analyse(file, text);
  const Lines lines(text, false);
  const auto names = assist::find_names(*a);
  const auto* here = names.at(lines.byte(position));
  const auto* there = here ? names.definition(here->of) : nullptr;
  if (!there || there->source != 0) return nullptr;
  return lines.range(there->span);
}

Json Look::rename(const std::string& file, const std::string& text, const Json& position,
                  const std::string& to) const {
  const auto a = analyse(file, text);
  const auto names = assist::find_names(*a);
  const auto* here = names.at(Lines(text, false).byte(position));
  if (!here) throw Refusal{422, "no name stands here"};
  const auto renamed = assist::rename(*a, names, here->of, to);
  if (!renamed.refused.empty()) throw Refusal{422, renamed.refused};
  for (const auto& e : renamed.edits)
    if (e.source != 0)
      throw Refusal{422,
                    "the name stands in " + a->sources[e.source].file + " too; rename it there"};
  return {{"text", assist::applied(text, renamed.edits)}, {"warning", renamed.warning}};
}

// ---- types --------------------------------------------------------------------------------------

Json Look::types() const {
  Json all = Json::array();
  for (const auto& s : catalogue_.all())
    all.push_back({{"name", s->name},
                   {"family", s->is_network ? "network" : s->family},
                   {"doc", s->doc.substr(0, s->doc.find(". "))},
                   {"source", !s->is_network && s->arity == Arity::source}});
  return all;
}

Json Look::type(const std::string& name) const {
  const Spec* s = catalogue_.find(name);
  if (!s) return nullptr;
  Json ports = Json::array(), params = Json::array();
  for (const auto& p : s->ins)
    ports.push_back({"in", p.name + (p.optional ? " (optional)" : ""), p.doc});
  for (const auto& p : s->outs) ports.push_back({"out", p.name, p.doc});
  for (const auto& p : s->params)
    params.push_back({{"name", p.name},
                      {"type", assist::type_of(p)},
                      {"default", assist::default_of(p)},
                      {"doc", p.doc}});
  return {{"name", s->name},
          {"doc", s->doc},
          {"traits", assist::traits(*s)},
          {"ports", std::move(ports)},
          {"fields", words(assist::fields_of(*s))},
          {"rules", words(assist::rules_of(*s))},
          {"params", std::move(params)},
          {"example", assist::example(*s)}};
}

}  // namespace sluice::web
