#include "tests/engine/fuzz.h"

namespace sluice::fuzz {
namespace {

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (auto& member : value) collect(member, all);
}

Json nested(Json value, std::size_t levels) {
  for (std::size_t i = 0; i < levels; ++i) value = Json::array({std::move(value)});
  return value;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> out;
  if (object.is_object())
    for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

}  // namespace

Json& Fuzzer::any_value(Json& graph) {
  std::vector<Json*> all;
  collect(graph, all);
  return *one_of(all);
}

// One of the members of a section of the graph, or null.
Json* Fuzzer::any_object(Json& graph, const char* section) {
  if (!graph.is_object() || !graph.contains(section) || !graph[section].is_object()) return nullptr;
  const auto names = keys(graph[section]);
  if (names.empty()) return nullptr;
  Json& member = graph[section][one_of(names)];
  return member.is_object() ? &member : nullptr;
}

// A name that means something in the graph, or nearly.
std::string Fuzzer::any_name(const Json& graph) {
  std::vector<std::string> names{"nowhere", "", ".", "a.b.c", "pre/load", "(prepare)/load"};
  for (const char* section : {"nodes", "parts", "models", "vars"})
    if (graph.is_object() && graph.contains(section))
      for (const auto& key : keys(graph[section])) names.push_back(key);
  std::string name = one_of(names);
  if (chance(6)) name += "." + one_of(names);
  if (chance(12)) name += "/" + one_of(names);
  return name;
}

std::string Fuzzer::odd_text() {
  static const std::vector<std::string> texts{"",
                                              " ",
                                              "@",
                                              "@@",
                                              "@nowhere",
                                              "ä€𝄞",
                                              "\xF0\x9F\xA7\xA0",
                                              "a\nb",
                                              "\t",
                                              "\"",
                                              "\\",
                                              "~",
                                              "~0",
                                              "/",
                                              "//",
                                              "a/b",
                                              "a.b",
                                              "-",
                                              "__",
                                              "null",
                                              "0",
                                              "1e999",
                                              "(x)",
                                              "x-y",
                                              "ui",
                                              std::string(300, 'x'),
                                              std::string(1, '\0'),
                                              "\u202Eabc",
                                              "type",
                                              "part",
                                              "in"};
  return one_of(texts);
}

Json Fuzzer::odd_value() {
  switch (below(8)) {
    case 0:
      return nullptr;
    case 1:
      return chance(2);
    case 2:
      return static_cast<std::int64_t>(random_()) - (1 << 30);
    case 3:
      return one_of(std::vector<double>{0.5, -0.0, 1e300, 5e-324, 1e18, 0.1, 2.0});
    case 4:
      return odd_text();
    case 5:
      return nested(odd_text(), below(70));
    case 6:
      return Json::object({{odd_text(), odd_text()}});
    default:
      return Json::array({odd_text(), below(9), nullptr});
  }
}

// ---- by structure -------------------------------------------------------------------------------

void Fuzzer::structure(Json& graph) {
  Json &a = any_value(graph), &b = any_value(graph);
  const Json copy = b;
  switch (below(5)) {
    case 0: {  // swapped, where neither holds the other
      const Json other = a;
      a = copy;
      if (!chance(3)) any_value(graph) = other;
      break;
    }
    case 1:
      a = copy;
      break;
    case 2:
      a = odd_value();
      break;
    case 3:
      if (a.is_array()) a.push_back(copy);
      if (a.is_object()) a[odd_text()] = copy;
      break;
    default:
      if (a.is_object() && !a.empty())
        a.erase(one_of(keys(a)));
      else if (a.is_array() && !a.empty())
        a.erase(below(a.size()));
  }
}

void Fuzzer::nodes(Json& graph) {
  Json* node = any_object(graph, "nodes");
  if (!node) return;
  switch (below(5)) {
    case 0:  // doubled under another name
      graph["nodes"][any_name(graph) + (chance(2) ? "2" : odd_text())] = Json(*node);
      break;
    case 1:  // reads some node: often a cycle or two streams
      (*node)["in"] = any_name(graph);
      break;
    case 2:
      (*node)["in"] = {{"image", any_name(graph)}, {"label", any_name(graph)}};
      break;
    case 3: {  // another name, to which the old references do not lead
      const std::string from = one_of(keys(graph["nodes"]));
      const Json moved = graph["nodes"][from];
      graph["nodes"].erase(from);
      graph["nodes"][chance(2) ? odd_text() : any_name(graph)] = moved;
      break;
    }
    default:
      (*node)["part"] = any_name(graph);
      if (!chance(4)) node->erase("type");
  }
}

void Fuzzer::parts(Json& graph) {
  Json* part = any_object(graph, "parts");
  if (!part) return;
  const std::string name = any_name(graph);
  switch (below(5)) {
    case 0:
      (*part)["nodes"][any_name(graph)] = {{"part", one_of(keys(graph["parts"]))}, {"in", name}};
      break;
    case 1:
      (*part)["in"] = chance(2) ? Json(name) : Json::array({name, any_name(graph), name});
      break;
    case 2:
      (*part)["out"] = chance(2) ? Json(name) : Json{{name, any_name(graph)}, {"b", name}};
      break;
    case 3:
      (*part)["params"][any_name(graph)] = "@" + any_name(graph);
      break;
    default:  // each level twice the one before
      for (std::size_t i = 0; i < 3 + below(20); ++i) {
        const Json use = {{"part", "p" + std::to_string(i)}};
        graph["parts"]["p" + std::to_string(i + 1)] = {{"nodes", {{"a", use}, {"b", use}}}};
      }
      graph["nodes"]["many"] = {{"part", "p" + std::to_string(below(24))}};
  }
}

void Fuzzer::variables(Json& graph) {
  if (!graph.is_object()) return;
  const std::string name = chance(2) ? "v" + std::to_string(below(5)) : any_name(graph);
  const std::string to = "@" + (chance(2) ? "v" + std::to_string(below(5)) : any_name(graph));
  if (!graph.contains("vars") || graph["vars"].is_object())
    graph["vars"][name] = chance(2) ? Json(to) : nested(Json::array({to, to, to}), below(3));
  Json& value = any_value(graph);
  if (value.is_primitive()) value = "@" + name;
}

void Fuzzer::settings(Json& graph) {
  Json* node = any_object(graph, chance(6) ? "models" : "nodes");
  if (!node) return;
  static const std::vector<std::string> keys{"disabled", "after",    "every_epochs", "lane",
                                             "max_bad",  "requires", "on_error",     "desc",
                                             "net",      "size",     "num_samples",  "type"};
  const std::string& key = one_of(keys);
  (*node)[key] = key == "disabled"                       ? Json(true)
                 : key == "size" || key == "num_samples" ? Json(below(5))
                 : chance(4)                             ? odd_value()
                                                         : Json(any_name(graph));
}

// ---- byte by byte -------------------------------------------------------------------------------

// Numbers that JSON allows and no type holds.
void Fuzzer::numbers(std::string& text) {
  const auto at = text.find_first_of("0123456789", below(text.size()));
  if (at == std::string::npos) return;
  static const std::vector<std::string> huge{"9223372036854775807",
                                             "9223372036854775808",
                                             "-9223372036854775809",
                                             "1e999",
                                             "-1e999",
                                             "1e-999",
                                             "123456789012345678901234567890",
                                             "0.1e1",
                                             "00",
                                             "1.",
                                             "0x10",
                                             "1_000",
                                             "NaN"};
  text.replace(at, 1, one_of(huge));
}

void Fuzzer::bytes(std::string& text) {
  static const std::vector<std::string> tokens{
      "{",
      "}",
      "[",
      "]",
      "\"",
      ",",
      ":",
      "//",
      "/*",
      "*/",
      "\\u0000",
      "\\ud800",
      "\\",
      "@",
      "'",
      "\xFF",
      "\xC3",
      "\xED\xA0\x80",
      std::string(1, '\0'),
      "true",
      "None",
      "\n",
      "\xEF\xBB\xBF",
      "\"type\":",
      "\"in\":",
      "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["};
  const std::size_t at = below(text.size() + 1), length = below(1 + below(40));
  switch (below(5)) {
    case 0:
      text.insert(at, one_of(tokens));
      break;
    case 1:
      text.erase(at, length);
      break;
    case 2:
      text.insert(at, text.substr(below(text.size() + 1), length));
      break;
    case 3:
      if (at < text.size()) text[at] = static_cast<char>(below(256));
      break;
    default:
      if (chance(4)) text.resize(at);
  }
}

void Fuzzer::change(Json& graph) try {
  switch (below(8)) {
    case 0:
    case 1:
      return structure(graph);
    case 2:
    case 3:
      return nodes(graph);
    case 4:
      return parts(graph);
    case 5:
      return variables(graph);
    default:
      return settings(graph);
  }
} catch (const Json::exception&) {
  // A change before this one left something else there than an object.
}

std::string Fuzzer::input(const std::vector<Json>& corpus) {
  Json graph = one_of(corpus);
  for (std::size_t i = below(6); i > 0; --i) change(graph);
  std::string text =
      graph.dump(static_cast<int>(below(3)) - 1, ' ', false, Json::error_handler_t::ignore);
  if (chance(12)) numbers(text);
  if (chance(3))
    for (std::size_t i = 1 + below(4); i > 0; --i) bytes(text);
  return text;
}

std::vector<std::string> Fuzzer::overrides(const std::string& text) {
  std::vector<std::string> all;
  if (!chance(4)) return all;
  const Json graph = Json::parse(text, nullptr, false, true);
  for (std::size_t i = 1 + below(3); i > 0; --i) {
    std::string path = one_of(std::vector<std::string>{"vars", "run", "nodes", "models", "parts"});
    const Json* at = graph.is_object() && graph.contains(path) ? &graph[path] : nullptr;
    while (at && at->is_object() && !at->empty() && !chance(3)) {
      const std::string key = one_of(keys(*at));
      path += "." + key;
      at = &at->at(key);
    }
    if (chance(3)) path += "." + any_name(graph);
    if (chance(6)) bytes(path);
    const std::string mark = one_of(std::vector<std::string>{"", "", "", "+", "~"});
    all.push_back(mark + path + (mark == "~" ? "" : "=" + odd_value().dump()));
  }
  return all;
}

}  // namespace sluice::fuzz
