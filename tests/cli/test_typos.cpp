// Every name in the shipped graphs with one letter wrong: the message says what was meant, and is
// the only one. SLUICE_LONG=1 tries more places.
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <set>

#include "engine/graph/named_choice.h"
#include "tests/campaign.h"
#include "tests/cli/types.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

// A name in a graph: the member of an object that it is the key of, or a part of a string.
struct Site {
  std::string kind;
  std::string pointer;  // of the object whose key it is, or of the string
  std::string name;
  bool is_key = false;
  std::size_t offset = 0;  // of the name in the string
  Names known;             // all that could stand there
  bool any_case = false;   // which does not matter: what is suggested may have another

  std::string cased(const std::string& text) const { return any_case ? lower_case(text) : text; }
};

// ---- an independent measure of what is near -----------------------------------------------------

// Optimal string alignment by its definition, with the whole table.
std::size_t apart(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                         1 + std::min(d[i - 1][j], d[i][j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// Whether `name` is the one name that is nearest to `typo`, which is none itself.
bool is_clear(const std::string& typo, const std::string& name, const Names& known) {
  std::size_t others = 99;
  for (const auto& k : known) {
    if (k == typo) return false;
    if (k != name) others = std::min(others, apart(typo, k));
  }
  return apart(typo, name) < others;
}

// ---- edits --------------------------------------------------------------------------------------

enum Edit { insertion, deletion, substitution, transposition, edits };

// The name with one letter inserted, dropped, changed or swapped at a random place; itself where
// the edit changes nothing.
std::string edited(std::string name, Edit edit, std::mt19937& random) {
  static const std::string letters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const char letter = letters[below(letters.size())];
  const std::size_t at = below(name.size());
  if (edit == insertion) name.insert(below(name.size() + 1), 1, letter);
  if (edit == deletion) name.erase(at, 1);
  if (edit == substitution) name[at] = letter;
  if (edit == transposition && at + 1 < name.size()) std::swap(name[at], name[at + 1]);
  return name;
}

void rename_key(Json& object, const std::string& from, const std::string& to) {
  for (auto& member : object.get_ref<Json::object_t&>())
    if (member.first == from) const_cast<std::string&>(member.first) = to;
}

std::string with_typo(Json graph, const Site& site, const std::string& typo) {
  Json& at = graph[Json::json_pointer(site.pointer)];
  if (site.is_key)
    rename_key(at, site.name, typo);
  else
    at.get_ref<std::string&>().replace(site.offset, site.name.size(), typo);
  return graph.dump(1);
}

// ---- the names in a graph -----------------------------------------------------------------------

Names keys(const Json& object) {
  Names out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}
Names operator+(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Names param_names(const Spec& spec) {
  Names out;
  for (const auto& p : spec.params) out.push_back(p.name);
  return out;
}
Names port_names(const std::vector<PortSpec>& ports) {
  Names out;
  for (const auto& p : ports) out.push_back(p.name);
  return out;
}

Names all_types(bool networks) {
  Names out;
  for (const auto& spec : types::real().all())
    if (spec->is_network == networks) out.push_back(spec->name);
  return out;
}

// Parameters of any type: a key of this name is not taken for a misspelt "type".
Names all_params() {
  std::set<std::string> names;
  for (const auto& spec : types::real().all())
    for (const auto& p : spec->params) names.insert(p.name);
  return {names.begin(), names.end()};
}

const Names node_keys = Names{"type", "part", "in"} + param_names(node_settings_spec());
const Names use_keys{"part", "in", "desc", "disabled"};

class Sites {
 public:
  explicit Sites(const Json& graph) : graph_(graph) {
    parts_ = graph.contains("parts") ? keys(graph["parts"]) : Names{};
    vars_ = graph.contains("vars") ? keys(graph["vars"]) : Names{};
    models_ = graph.contains("models") ? keys(graph["models"]) : Names{};
    top();
    run();
    models();
    for (const auto& name : parts_) part(name);
    nodes(graph["nodes"], "/nodes", node_names(), vars_);
    stop_metric();
  }
  std::vector<Site> all;

 private:
  void key(const std::string& kind, const std::string& object, const std::string& name,
           const Names& known) {
    all.push_back({kind, object, name, true, 0, known});
  }
  void word(const std::string& kind, const std::string& pointer, const std::string& name,
            const Names& known, std::size_t offset = 0) {
    all.push_back({kind, pointer, name, false, offset, known});
  }
  static std::string below(const std::string& pointer, const std::string& key) {
    Json::json_pointer p(pointer);
    p /= key;
    return p.to_string();
  }

  void top() {
    const Names known{"$schema", "name", "desc", "vars", "run", "models", "parts", "nodes"};
    for (const auto& name : keys(graph_)) key("reserved key", "", name, known);
  }

  void run() {
    if (!graph_.contains("run")) return;
    const Names known = param_names(run_spec()) + Names{"stop", "checkpoint"};
    for (const auto& name : keys(graph_["run"])) key("run setting", "/run", name, known);
    for (const auto* spec : {&stop_spec(), &checkpoint_spec()}) {
      const std::string group = spec->name.substr(4);
      if (!graph_["run"].contains(group)) continue;
      for (const auto& name : keys(graph_["run"][group]))
        key("run setting", "/run/" + group, name, param_names(*spec));
    }
    values(graph_["run"], "/run", run_spec(), vars_);
  }

  void models() {
    if (!graph_.contains("models")) return;
    for (const auto& [name, model] : graph_["models"].items()) {
      const std::string at = below("/models", name);
      const Spec& spec = *types::real().find(model["type"].get<std::string>());
      word("network type", at + "/type", spec.name, all_types(true));
      for (const auto& k : keys(model))
        key(k == "type" ? "reserved key" : "parameter", at, k,
            param_names(spec) + Names{"type", "desc", "weights"} +
                (k == "type" ? all_params() : Names{}));
      values(model, at, spec, vars_);
    }
  }

  void part(const std::string& name) {
    const Json& part = graph_["parts"][name];
    const std::string at = below("/parts", name);
    for (const auto& k : keys(part))
      key("reserved key", at, k, {"in", "out", "params", "nodes", "desc"});
    Names names = keys(part["nodes"]);
    if (part.contains("in"))
      names = names + (part["in"].is_array() ? part["in"].get<Names>()
                                             : Names{part["in"].get<std::string>()});
    if (part.contains("out") && part["out"].is_string())
      word("node reference", at + "/out", part["out"], names);
    nodes(part["nodes"], at + "/nodes", names,
          vars_ + (part.contains("params") ? keys(part["params"]) : Names{}));
  }

 public:
  // What can be referred to outside parts: nodes, and what uses of parts bring.
  Names node_names() const {
    Names names = keys(graph_["nodes"]);
    for (const auto& [name, node] : graph_["nodes"].items()) {
      if (!node.contains("part")) continue;
      const Json& part = graph_["parts"][node["part"].get<std::string>()];
      for (const auto& inner : keys(part["nodes"])) names.push_back(name + "/" + inner);
      if (part.contains("in")) names.push_back(name + "/" + part["in"].get<std::string>());
    }
    return names;
  }

 private:
  void nodes(const Json& nodes, const std::string& where, const Names& names, const Names& vars) {
    for (const auto& [name, node] : nodes.items()) {
      const std::string at = below(where, name);
      if (node.contains("part"))
        use(node, at);
      else
        plain(node, at, names, vars);
      if (node.contains("in")) inputs(node["in"], at + "/in", names);
      if (node.contains("after")) word("node reference", at + "/after", node["after"], names);
    }
  }

  void use(const Json& node, const std::string& at) {
    word("part name", at + "/part", node["part"], parts_);
    const Json& part = graph_["parts"][node["part"].get<std::string>()];
    const Names params = part.contains("params") ? keys(part["params"]) : Names{};
    for (const auto& k : keys(node))
      key(k == "part" ? "reserved key" : "parameter", at, k,
          k == "part" ? Names{"type", "part"} + node_keys + all_params()
                      : use_keys + params + Names{"type"});
  }

  void plain(const Json& node, const std::string& at, const Names&, const Names& vars) {
    const Spec& spec = *types::real().find(node["type"].get<std::string>());
    word("node type", at + "/type", spec.name, all_types(false));
    for (const auto& k : keys(node))
      key(spec.find_param(k) ? "parameter" : "reserved key", at, k,
          k == "type" ? Names{"type", "part"} + node_keys + all_params()
                      : node_keys + param_names(spec));
    values(node, at, spec, vars);
    for (const std::string& param : spec.params_with_networks())
      if (node.contains(param) && node[param].is_string())
        word("network name", at + "/" + param, node[param], models_);
  }

  void inputs(const Json& in, const std::string& at, const Names& names) {
    if (in.is_string()) return reference(in, at, names);
    for (const auto& [port, ref] : in.items()) {
      key("port", at, port, keys(in));
      reference(ref, below(at, port), names);
    }
  }
  void reference(const std::string& text, const std::string& at, const Names& names) {
    const auto dot = text.find('.');
    word("node reference", at, text.substr(0, dot), names);
    if (dot == std::string::npos) return;
    const Json& from = graph_["nodes"][text.substr(0, dot)];
    word("port", at, text.substr(dot + 1),
         port_names(types::real().find(from["type"].get<std::string>())->outs), dot + 1);
  }

  // Words of a few, and variables.
  void values(const Json& object, const std::string& at, const Spec& spec, const Names& vars) {
    const std::function<void(const Json&, const std::string&, const Names&)> walk =
        [&](const Json& value, const std::string& pointer, const Names& choices) {
          if (value.is_structured())
            for (const auto& [k, element] : value.items())
              walk(element, below(pointer, k), choices);
          if (!value.is_string()) return;
          const auto text = value.get<std::string>();
          if (text.starts_with('@'))
            word("variable", pointer, text.substr(1), vars, 1);
          else if (!choices.empty())
            word("choice", pointer, text, choices);
        };
    for (const auto& [name, value] : object.items()) {
      const ParamSpec* p = spec.find_param(name);
      const std::size_t first = all.size();
      walk(value, below(at, name), p ? p->choices : Names{});
      if (p && takes_a_name(*p))
        for (std::size_t i = first; i < all.size(); ++i) all[i].any_case = true;
    }
  }

  void stop_metric() {
    if (!graph_.contains("run") || !graph_["run"].contains("stop")) return;
    const std::string metric = graph_["run"]["stop"]["metric"], at = "/run/stop/metric";
    const auto dot = metric.rfind('.');
    const std::string node = metric.substr(0, dot);
    // Only sinks of validation streams and updaters have metrics then.
    Names known;
    for (const auto& [name, n] : graph_["nodes"].items())
      if (n.contains("type"))
        if (const Spec* spec = types::real().find(n["type"].get<std::string>()))
          if (!spec->metrics.empty()) known.push_back(name);
    word("metric", at, node, known);
    const Spec& spec = *types::real().find(graph_["nodes"][node]["type"].get<std::string>());
    word("metric", at, metric.substr(dot + 1), spec.metrics, dot + 1);
  }

  const Json& graph_;
  Names parts_, vars_, models_;
};

// A value that a required parameter accepts.
Json sample(std::string type, const ParamSpec& p) {
  if (type.ends_with('?')) type.pop_back();
  if (type.starts_with("list<")) {
    Json list = Json::array();
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, p.shortest.value_or(1)); ++i)
      list.push_back(sample(type.substr(5, type.size() - 6), p));
    return list;
  }
  if (type == "int" || type == "float") return p.min.value_or(p.above ? *p.above + 1 : 1);
  if (type == "bool") return true;
  if (type == "string") return p.choices.empty() ? "x" : p.choices.front();
  if (p.members) return {{"a", {{"type", p.members->front().name}, {"out_channels", 1}}}};
  return Json::array({{{"image", "x"}}});
}

// A graph around a node of this type, with all its ports and parameters.
Json graph_of(const Spec& spec) {
  Json g = Json::parse(R"({ "models": { "net": { "type": "unet", "spatial_dims": 3,
      "in_channels": 1, "out_channels": 2, "channels": [4, 8], "strides": [2] } },
    "nodes": { "cases": { "type": "decathlon", "root": "d" },
               "load":  { "type": "load_image", "in": "cases.sample" } } })");
  Json& node = spec.is_network ? g["models"]["net"] : g["nodes"]["it"];
  if (spec.is_network && spec.name != "unet") node = Json::object();
  node["type"] = spec.name;
  for (const auto& port : spec.ins) node["in"][port.name] = "load.sample";
  if (spec.find_param("transforms")) node["transforms"] = {{{"type", "rand_flip"}}};
  if (spec.find_param("body")) node["body"] = {{{"type", "rand_flip"}}};
  if (const ParamSpec* step = spec.find_param("step"); step && step->type == "json")
    node["step"] = Json::parse(R"([{ "type": "model", "net": "net" }, { "type": "mse_loss" },
                                   { "type": "sgd", "net": "net", "lr": 0.1 }])");
  for (const auto& p : spec.params)
    if (!node.contains(p.name)) node[p.name] = p.required ? sample(p.type, p) : p.fallback;
  for (const auto& param : spec.params_with_networks()) node[param] = "net";
  for (const auto& r : spec.param_rules) {
    if (const ParamSpec& a = *spec.find_param(r.a); r.kind == ParamRule::Kind::one_of)
      node[r.a] = sample(a.type, a);
    if (r.kind == ParamRule::Kind::length && node[r.a].is_array() && !node[r.a].empty())
      node[r.a] = std::vector<Json>(node[r.b].size() + static_cast<std::size_t>(r.shift),
                                    node[r.a].front());
  }
  return g;
}

struct Tally {
  std::map<std::string, int> tried, unclear;
};

// Exactly one error, which says what was meant.
void check_hint(const Diagnostics& found, const Site& site, const std::string& typo) {
  std::string hints, text;
  for (const auto& d : found.all()) {
    if (d.severity == Severity::error) hints += d.hint + "|";
    text += d.code + " " + d.message + " (" + d.hint + ")\n";
  }
  // "did you mean "load"?", as itself or within "@load", "val_dice.mean" or nodes.load.keys.
  const bool right = hints.starts_with("did you mean ") &&
                     site.cased(hints).find(site.cased(site.name)) != std::string::npos &&
                     hints.find('|') + 1 == hints.size();
  CHECK_MESSAGE(right, site.kind << " " << site.pointer << ": \"" << typo << "\" for \""
                                 << site.name << "\":\n"
                                 << text);
}

using Check = std::function<Diagnostics(const std::string& typo)>;

void try_site(const Site& site, const Check& check, std::mt19937& random, Tally& tally) {
  if (site.name.empty()) return;  // a choice that is "" has no letter
  for (int e = 0; e < edits; ++e) {
    const std::string typo = edited(site.name, static_cast<Edit>(e), random);
    if (site.cased(typo) == site.cased(site.name) || typo.empty() || typo == "ui" ||
        typo.starts_with("x-"))
      continue;
    if (is_clear(site.cased(typo), site.cased(site.name), site.known)) {
      ++tally.tried[site.kind];
      check_hint(check(typo), site, typo);
    } else {
      ++tally.unclear[site.kind];
    }
  }
}

void try_graph(const Json& graph, int seeds, Tally& tally) {
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    for (const Site& site : Sites(graph).all)
      try_site(
          site,
          [&](const std::string& typo) {
            return types::check("g.json", with_typo(graph, site, typo));
          },
          random, tally);
  }
}

int repeats(int in_ci, int at_length) { return campaign::at_length() ? at_length : in_ci; }

Json parsed(const fs::path& file) {
  return Json::parse(std::ifstream(file), nullptr, true, /*ignore_comments=*/true);
}

// Parts that stand in files of their own are put in their place.
std::map<std::string, Json> shipped() {
  std::map<std::string, Json> graphs;
  for (const auto& e : fs::directory_iterator(SLUICE_SOURCE_DIR "/graphs")) {
    if (e.path().extension() != ".json" || e.path().filename() == "graph.schema.json") continue;
    Json& graph = graphs[e.path().filename()] = parsed(e.path());
    if (!graph.contains("parts")) continue;
    for (auto& part : graph["parts"])
      if (part.is_string()) part = parsed(e.path().parent_path() / part.get<std::string>());
  }
  return graphs;
}

void report(const Tally& tally) {
  int sum = 0;
  std::string text;
  for (const auto& [kind, n] : tally.tried) {
    sum += n;
    const auto none = tally.unclear.find(kind);
    text += ", " + std::to_string(n) + " " + kind;
    if (none != tally.unclear.end()) text += " (" + std::to_string(none->second) + " unclear)";
  }
  MESSAGE(sum << " typing errors" << text);
}

}  // namespace

TEST_CASE("One letter wrong in any name of the shipped graphs gets the right suggestion") {
  Tally tally;
  for (const auto& [file, graph] : shipped()) {
    CAPTURE(file);
    REQUIRE(types::check(file, graph.dump()).ok());
    try_graph(graph, repeats(1, 20), tally);
  }
  report(tally);
  for (const char* kind : {"node type", "network type", "parameter", "reserved key", "variable",
                           "part name", "metric", "node reference", "choice", "network name"})
    CHECK_MESSAGE(tally.tried[kind] > 0, kind);
}

TEST_CASE("One letter wrong in any port or parameter of any type gets the right suggestion") {
  Tally tally;
  for (const auto& spec : types::real().all()) {
    const Json graph = graph_of(*spec);
    const Diagnostics found = types::check("g.json", graph.dump());
    for (const auto& d : found.all())
      CHECK_MESSAGE((d.code >= "SL0319" || d.code == "SL0239"),
                    spec->name << ": " << d.code << " " << d.message);
    try_graph(graph, repeats(1, 20), tally);
  }
  report(tally);
  CHECK(tally.tried["port"] > 0);
}

// ---- --set --------------------------------------------------------------------------------------

namespace {

// Names that can follow `path` in a graph.
Names names_behind(const Json& graph, const Names& path) {
  if (path.empty()) return {"vars", "run", "models", "parts", "nodes", "name", "desc"};
  if (path.size() == 1 && path[0] == "nodes") return Sites(graph).node_names();
  if (path.size() == 1 && path[0] == "run")
    return param_names(run_spec()) + Names{"stop", "checkpoint"};
  if (path[0] == "run") return param_names(path[1] == "stop" ? stop_spec() : checkpoint_spec());
  if (path.size() == 2 && path[0] == "parts") return {"in", "out", "params", "nodes", "desc"};
  const Json* at = &graph;
  for (const auto& key : path) at = &at->at(key);
  if (at->contains("type")) {
    const Spec& spec = *types::real().find((*at)["type"].get<std::string>());
    return param_names(spec) + (spec.is_network ? Names{"type", "desc", "weights"} : node_keys);
  }
  if (at->contains("part")) {
    const Json& part = graph["parts"][(*at)["part"].get<std::string>()];
    return use_keys + Names{"type"} + (part.contains("params") ? keys(part["params"]) : Names{});
  }
  return keys(*at);
}

// Paths to the members of the graph's sections, and the values there.
void collect(const Json& value, const Names& path, std::map<Names, Json>& all) {
  if (path.size() > 1) all[path] = value;
  const bool section = path.size() == 1 && (path[0] == "name" || path[0] == "desc");
  if (!value.is_object() || section) return;
  for (const auto& [key, member] : value.items())
    if (!path.empty() || key != "$schema") collect(member, path + Names{key}, all);
}

std::string joined(const Names& path) {
  std::string out;
  for (const auto& key : path) out += (out.empty() ? "" : ".") + key;
  return out;
}

// Of objects that are parameters' values, names mean nothing to the graph.
bool is_known_path(const Json& graph, const Names& path) {
  const std::size_t most = path[0] == "vars" ? 2 : path[0] == "parts" ? 5 : 3;
  const bool into_params = path.size() > 3 && path[0] == "parts" && path[2] == "params";
  return path.size() <= most && !(into_params && path.size() > 4) && graph.contains(path[0]);
}

void try_paths(const Json& graph, unsigned seed, Tally& tally) {
  std::map<Names, Json> all;
  collect(graph, {}, all);
  std::mt19937 random(seed);
  const auto every = static_cast<unsigned>(repeats(4, 1));  // graphs have most of their paths alike
  for (const auto& [path, value] : all) {
    if (!is_known_path(graph, path) || random() % every != 0) continue;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Names before(path.begin(), path.begin() + static_cast<long>(i));
      const Site site{"--set " + path[0],         joined(path), path[i], true, 0,
                      names_behind(graph, before)};
      try_site(
          site,
          [&, &path = path, &value = value](const std::string& typo) {
            Names changed = path;
            changed[i] = typo;
            return types::check("g.json", graph.dump(), types::real(),
                                {Override{joined(changed), value.dump()}});
          },
          random, tally);
    }
  }
}

}  // namespace

TEST_CASE("One letter wrong in a path of --set gets the right suggestion") {
  Tally tally;
  for (const auto& [file, graph] : shipped()) {
    CAPTURE(file);
    for (int seed = 0; seed < repeats(1, 10); ++seed)
      try_paths(graph, static_cast<unsigned>(seed), tally);
  }
  report(tally);
}
