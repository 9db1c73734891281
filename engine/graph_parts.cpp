// Parts: sub-graphs that are written once and used by name. Expansion makes one flat list of nodes
// ("pre/load", "pre/ras", ...) and a table of what every name stands for.
#include <algorithm>

#include "engine/graph_reader.h"

namespace sluice::reading {
namespace {

constexpr std::size_t max_nodes = 100'000;
constexpr std::size_t max_nesting = 64;
const std::vector<std::string> part_keys{"in", "out", "params", "nodes", "desc"};
const std::vector<std::string> use_keys{"part", "in", "desc", "disabled"};

bool contains(const std::vector<std::string>& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

struct Part {
  std::string name;
  Place place;
  std::vector<std::string> ins;
  std::vector<std::pair<std::string, Ref>> outs;  // prefixes are filled in where it is used
  Bindings params;
  const Json* nodes = nullptr;  // null: faulty
};

// ---- the definitions ----------------------------------------------------------------------------

class PartReader {
 public:
  PartReader(Reading& reading, Part& part, const Json& written)
      : reading_(reading), part_(part), written_(written), path_("parts." + part.name) {}

  void run() {
    if (!expect_object(reading_, written_, part_.place, path_)) return;
    for (const auto& [key, value] : written_.items()) {
      if (is_ignored(key) || contains(part_keys, key)) continue;
      reading_.error("SL0202", "unknown key \"" + key + "\" in a part",
                     part_.place.child(key).key(), path_ + "." + key, did_you_mean(key, part_keys));
    }
    ins();
    outs();
    params();
    nodes();
  }

 private:
  void ins() {
    if (!written_.contains("in")) return;
    const Json& in = written_["in"];
    const Place place = part_.place.child("in");
    if (in.is_string()) return in_name(in, place);
    if (!in.is_array()) return wrong("in", "a name or a list of names", in);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].is_string())
        in_name(in[i], place.child(i));
      else
        wrong("in", "a list of names", in);
    }
  }

  void in_name(const Json& name, const Place& place) {
    const auto& text = name.get_ref<const std::string&>();
    if (!is_name(text, false))
      reading_.error("SL0204", "\"" + text + "\" cannot be the name of an input", place,
                     path_ + ".in", "use letters, digits, _ and -");
    else
      part_.ins.push_back(text);
  }

  void outs() {
    if (!written_.contains("out")) return;
    const Json& out = written_["out"];
    const Place place = part_.place.child("out");
    if (out.is_string()) {
      part_.outs.emplace_back("", Ref{out.get<std::string>(), "", place, path_ + ".out"});
    } else if (out.is_object()) {
      for (const auto& [port, ref] : out.items()) {
        if (!ref.is_string()) return wrong("out", "{\"port\": \"node.port\"}", out);
        part_.outs.emplace_back(
            port, Ref{ref.get<std::string>(), "", place.child(port), path_ + ".out." + port});
      }
    } else {
      wrong("out", "\"node\", \"node.port\" or {\"port\": \"node.port\"}", out);
    }
  }

  void params() {
    if (!written_.contains("params")) return;
    const Place place = part_.place.child("params");
    if (!expect_object(reading_, written_["params"], place, path_ + ".params")) return;
    for (const auto& [key, value] : written_["params"].items())
      if (contains(use_keys, key))
        reading_.error("SL0204", "a part's parameter cannot be called \"" + key + "\"",
                       place.child(key).key(), path_ + ".params." + key,
                       "\"part\", \"in\", \"desc\" and \"disabled\" have a meaning of their own");
    part_.params =
        bind(reading_, written_["params"], place, path_ + ".params", {nullptr, &reading_.vars});
  }

  void nodes() {
    if (!written_.contains("nodes")) {
      reading_.error("SL0208", "part \"" + part_.name + "\" has no \"nodes\"", part_.place.key(),
                     path_);
    } else if (expect_object(reading_, written_["nodes"], part_.place.child("nodes"),
                             path_ + ".nodes")) {
      part_.nodes = &written_["nodes"];
    }
  }

  void wrong(const std::string& key, const std::string& expected, const Json& found) {
    reading_.error("SL0201", "expected " + expected + ", found " + describe_json(found),
                   part_.place.child(key), path_ + "." + key);
  }

  Reading& reading_;
  Part& part_;
  const Json& written_;
  std::string path_;
};

// ---- the uses -----------------------------------------------------------------------------------

class Expander {
 public:
  Expander(Reading& reading, InnerOverrides& inner) : reading_(reading), inner_(inner) {}

  Expanded run() {
    const Json& root = reading_.document->root;
    read_parts(root);
    const Place place{reading_.document, "/nodes"};
    if (!root.contains("nodes"))
      reading_.error("SL0210", "the graph has no \"nodes\"", {reading_.document, ""}, "");
    else if (expect_object(reading_, root["nodes"], place, "nodes")) {
      if (root["nodes"].empty()) reading_.error("SL0210", "the graph has no nodes", place, "nodes");
      nodes(root["nodes"], place, "", {nullptr, &reading_.vars});
    }
    for (const auto& [name, o] : inner_) unused(name, o);
    return std::move(out_);
  }

 private:
  void read_parts(const Json& root) {
    if (!root.contains("parts")) return;
    const Place place{reading_.document, "/parts"};
    if (!expect_object(reading_, root["parts"], place, "parts")) return;
    for (const auto& [name, written] : root["parts"].items()) {
      Part& part = parts_[name];
      part.name = name;
      part.place = place.child(name);
      PartReader(reading_, part, written).run();
    }
  }

  void nodes(const Json& object, const Place& place, const std::string& prefix,
             const Scope& scope) {
    for (const auto& [key, written] : object.items()) {
      const std::string name = prefix + key, path = "nodes." + name;
      const Place here = place.child(key);
      if (!is_name(key, true))
        reading_.error("SL0204", "\"" + key + "\" cannot be the name of a node", here.key(), path,
                       "use letters, digits, _ and -");
      if (!claim(name, here, path) || !expect_object(reading_, written, here, path)) continue;
      if (++count_ > max_nodes) {
        reading_.error("SL0215", "parts expand to more than 100000 nodes", here, path);
        return;
      }
      WrittenNode node = read(written, here, name, prefix, scope);
      if (written.contains("part")) {
        use(node);
      } else {
        out_.names[name].kind = Name::Kind::node;
        out_.names[name].node = static_cast<int>(out_.nodes.size());
        out_.nodes.push_back(std::move(node));
      }
    }
  }

  // False where the name is taken: by a part's input, or by a name with '/' in it.
  bool claim(const std::string& name, const Place& place, const std::string& path) {
    const bool is_new = out_.names.try_emplace(name).second;
    if (!is_new)
      reading_.error("SL0211", "the name \"" + name + "\" is taken already", place.key(), path);
    return is_new;
  }

  WrittenNode read(const Json& written, const Place& place, const std::string& name,
                   const std::string& prefix, const Scope& scope) {
    Json changed = written;
    const auto [first, last] = inner_.equal_range(name);
    for (auto o = first; o != last; ++o) {
      o->second.used = true;
      if (const auto why = apply_inner(changed, o->second); !why.empty())
        reading_.error("SL0501", why, o->second.place, "nodes." + name);
    }
    WrittenNode node;
    static_cast<Written&>(node) = read_object(reading_, changed, place, "nodes." + name, scope);
    node.name = name;
    node.prefix = prefix;
    for (auto o = first; o != last; ++o)
      for (Field& field : node.fields)
        if (field.key == o->second.keys.front()) field.place = o->second.place;
    return node;
  }

  void use(const WrittenNode& node) {
    if (node.find("type"))
      reading_.error("SL0209", "\"" + node.name + "\" has both \"type\" and \"part\"",
                     node.find("part")->place.key(), node.path);
    const Field& field = *node.find("part");
    if (!field.value) return;
    const Part* part = find_part(node, field);
    if (!part || !part->nodes) return;
    if (contains(open_, part->name)) {
      std::string circle;
      for (const auto& name : open_) circle += name + " -> ";
      reading_.error("SL0207", "a part contains itself: " + circle + part->name, field.place,
                     node.path + ".part");
      return;
    }
    if (open_.size() == max_nesting) {
      reading_.error("SL0104", "parts are nested deeper than 64 levels", field.place, node.path);
      return;
    }
    connect_use(node, *part);
  }

  void connect_use(const WrittenNode& node, const Part& part) {
    const std::string inside = node.name + "/";
    std::set<int> mentioned;
    const auto inputs =
        read_inputs(reading_, node, node.prefix, part.ins, "part \"" + part.name + "\"", mentioned);
    if (part.ins.empty() && node.find("in"))
      reading_.error("SL0303", "part \"" + part.name + "\" takes no input",
                     node.find("in")->place.key(), node.path + ".in");
    if (disabled(node, part, inputs)) return;
    Name& name = out_.names[node.name];
    name.kind = Name::Kind::part;
    for (const auto& [port, ref] : part.outs) {
      name.outs.emplace_back(port, ref);
      name.outs.back().second.prefix = inside;
    }
    for (std::size_t i = 0; i < part.ins.size(); ++i) {
      Name& input = out_.names[inside + part.ins[i]];
      input.kind = Name::Kind::input;
      for (const auto& [port, ref] : inputs)
        if (port == static_cast<int>(i)) input.outer = ref;
      if (!input.outer && !mentioned.count(static_cast<int>(i)))
        reading_.error(
            "SL0304",
            "input \"" + part.ins[i] + "\" of part \"" + part.name + "\" is not connected",
            node.place.key(), node.path);
    }
    const Bindings params = bind_params(node, part);
    open_.push_back(part.name);
    nodes(*part.nodes, part.place.child("nodes"), inside, {&params, &reading_.vars});
    open_.pop_back();
  }

  const Part* find_part(const WrittenNode& node, const Field& field) {
    const std::string path = node.path + ".part";
    if (!field.value->is_string()) {
      reading_.error_at(field, "SL0201",
                        "expected the name of a part, found " + describe_json(*field.value), path);
      return nullptr;
    }
    const auto& name = field.value->get_ref<const std::string&>();
    const auto at = parts_.find(name);
    if (at != parts_.end()) return &at->second;
    std::vector<std::string> known;
    for (const auto& [key, part] : parts_) known.push_back(key);
    reading_.error_at(field, "SL0206", "unknown part \"" + name + "\"", path,
                      did_you_mean(name, known));
    return nullptr;
  }

  // A disabled part with one input and one output hands its input on; one without outputs is left
  // out with all its nodes.
  bool disabled(const WrittenNode& node, const Part& part,
                const std::vector<std::pair<int, Ref>>& inputs) {
    ParamSpec spec;
    spec.name = "disabled";
    spec.type = "bool";
    const Field* field = node.find("disabled");
    if (!field || !accepts(reading_, *field, spec, node.path + ".disabled")) return false;
    if (!field->value->get<bool>()) return false;
    Name& name = out_.names[node.name];
    if (part.ins.size() == 1 && part.outs.size() == 1) {
      name.kind = Name::Kind::input;
      if (!inputs.empty()) name.outer = inputs.front().second;
    } else if (part.outs.empty()) {
      name.kind = Name::Kind::part;
    } else {
      reading_.error_at(*field, "SL0309",
                        "part \"" + part.name + "\" cannot be disabled: it has " +
                            std::to_string(part.ins.size()) + " inputs and " +
                            std::to_string(part.outs.size()) + " outputs",
                        node.path + ".disabled");
    }
    return true;
  }

  Bindings bind_params(const WrittenNode& node, const Part& part) {
    Bindings params = part.params;
    for (const Field& field : node.fields) {
      if (contains(use_keys, field.key) || field.key == "type") continue;
      const auto at = params.find(field.key);
      if (at == params.end()) {
        std::vector<std::string> known = use_keys;
        for (const auto& [key, binding] : part.params) known.push_back(key);
        reading_.error(
            "SL0221", "part \"" + part.name + "\" has no parameter \"" + field.key + "\"",
            field.place.key(), node.path + "." + field.key, did_you_mean(field.key, known));
      } else {
        at->second = {field.value, field.place, node.path + "." + field.key};
      }
    }
    return params;
  }

  void unused(const std::string& name, const InnerOverride& o) {
    if (o.used) return;
    std::vector<std::string> known;
    for (const auto& node : out_.nodes) known.push_back(node.name);
    const std::string best = nearest(name, known);
    std::string keys;
    for (const auto& key : o.keys) keys += "." + key;
    reading_.error("SL0501", "no such path: there is no node \"" + name + "\"", o.place,
                   "nodes." + name + keys,
                   best.empty() ? "" : "did you mean nodes." + best + keys + "?");
  }

  Reading& reading_;
  InnerOverrides& inner_;
  std::map<std::string, Part> parts_;
  std::vector<std::string> open_;  // parts that are being expanded
  std::size_t count_ = 0;          // nodes and uses of parts so far
  Expanded out_;
};

}  // namespace

Expanded expand(Reading& reading, InnerOverrides& inner) { return Expander(reading, inner).run(); }

}  // namespace sluice::reading
