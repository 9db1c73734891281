#include "tools/cli/dot_page.h"

#include <algorithm>

#include "engine/judge/dot_text.h"
#include "tools/assist/describe.h"
#include "tools/assist/tree.h"

namespace sluice::cli {

using namespace assist;

namespace {

// ---- what the page knows of a node --------------------------------------------------------------

// The member that stands at a place as it is in the file, from its key on; with the line's indent
// where it begins the line.
std::string source(const Place& place) {
  const Place origin = place.origin();
  if (!origin.document || origin.mark().line == 0) return "";
  const std::string& text = origin.document->text;
  const Tree tree = read_tree(text);
  const Value* value = at_pointer(tree, origin.pointer);
  if (!value || value->key.empty()) return "";
  std::size_t begin = value->key.begin;
  const std::size_t before = text.find_last_not_of(" \t", begin - 1);
  if (before != std::string::npos && text[before] == '\n') begin = before + 1;
  return text.substr(begin, value->span.end - begin);
}

Json parameters(const Spec& spec, const Json& values, const std::vector<std::string>& given) {
  Json all = Json::array();
  for (const ParamSpec& p : spec.params) {
    const bool named = std::find(given.begin(), given.end(), p.name) != given.end();
    all.push_back({{"name", p.name},
                   {"type", type_of(p)},
                   {"value", values.contains(p.name) ? values[p.name] : p.fallback},
                   {"given", named && (p.required || values[p.name] != p.fallback)},
                   {"doc", p.doc}});
  }
  return all;
}

Json words(const Spec& spec) {
  Json all = Json::array();
  for (const auto& word : traits(spec)) all.push_back(word);
  return all;
}

Json flow(const PlanNode& n) {
  Json all = Json::array();
  for (const FieldInfo& f : n.flow.fields) all.push_back(f.name + " " + f.text(n.flow.batch));
  return all;
}

Json node_json(const Plan& plan, const Figures& figures, std::size_t i) {
  const PlanNode& n = plan.nodes[i];
  const NodeFigures* f = i < figures.nodes.size() ? &figures.nodes[i] : nullptr;
  Json j = {{"name", n.path()},
            {"type", n.spec->name},
            {"doc", n.spec->doc},
            {"traits", words(*n.spec)},
            {"desc", n.graph->desc},
            {"place", n.graph->place.str()},
            {"source", source(n.graph->place)},
            {"params", parameters(*n.spec, n.graph->params, n.graph->given)},
            {"flow", flow(n)}};
  if (n.credits > 0)
    j["credits"] = std::to_string(n.credits) + (n.credits == 1 ? " credit" : " credits") +
                   ", needs " + std::to_string(n.need) + " (" + n.why + ")";
  if (f && f->known)
    j["measured"] = {{"busy", dot::percent(f->busy)},
                     {"starved", dot::percent(f->starved)},
                     {"blocked", dot::percent(f->blocked)},
                     {"rate", dot::rate(f->rate) + "/s"},
                     {"fired", f->fired},
                     {"passed", f->passed},
                     {"p50", dot::milliseconds(f->p50_ms)},
                     {"p99", dot::milliseconds(f->p99_ms)},
                     {"queue, most", f->queue_max}};
  if (f && f->known && figures.nodes.size() == plan.nodes.size()) {
    const int node = static_cast<int>(i), in = done_in(plan, figures, node);
    const std::string pass = names_done_with(plan, figures, in < 0 ? node : in);
    if (pass != n.path()) j["measured"]["in one pass"] = pass;
  }
  return j;
}

Json data_json(const Plan& plan, const Figures& figures) {
  Json all = Json::object();
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    all["node" + std::to_string(i)] = node_json(plan, figures, i);
  for (std::size_t i = 0; i < plan.graph->models.size(); ++i) {
    const GraphModel& m = plan.graph->models[i];
    Json given = Json::array();
    std::vector<std::string> names;
    for (const auto& [key, value] : m.params.items()) names.push_back(key);
    all["network" + std::to_string(i)] = {{"name", "network " + m.name},
                                          {"type", m.spec->name},
                                          {"doc", m.spec->doc},
                                          {"traits", words(*m.spec)},
                                          {"place", m.place.str()},
                                          {"source", source(m.place)},
                                          {"params", parameters(*m.spec, m.params, names)}};
  }
  return all;
}

// ---- the page -----------------------------------------------------------------------------------

constexpr const char* page =
#include "tools/cli/dot_page.inc"
    ;

void put(std::string& text, const std::string& mark, const std::string& content) {
  text.replace(text.find(mark), mark.size(), content);
}

// Nothing in it can end the script element or begin a comment.
std::string within_script(std::string json) {
  for (auto at = json.find('<'); at != std::string::npos; at = json.find('<', at))
    json.replace(at, 1, "\\u003c");
  return json;
}

}  // namespace

std::string dot_page(const Plan& plan, const Figures& figures, const std::string& svg) {
  const Json data = data_json(plan, figures);
  const auto begin = svg.find("<svg");
  std::string text = page;
  // The mark that stands behind first, so that a graph's own text cannot be taken for it.
  put(text, "@DATA@", within_script(data.dump(-1, ' ', false, Json::error_handler_t::replace)));
  put(text, "@SVG@", begin == std::string::npos ? svg : svg.substr(begin));
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<title>" + dot::html(plan.graph->name) +
         "</title>\n" + text;
}

}  // namespace sluice::cli
