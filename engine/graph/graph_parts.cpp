// Parts: sub-graphs that are written once and used by name. Expansion makes one flat list of nodes
// ("pre/load", "pre/ras", ...) and a table of what every name stands for.
#include <algorithm>

#include "engine/graph/graph_reader.h"

namespace sluice::reading {
namespace {

constexpr std::size_t max_nodes = 100'000;
constexpr std::size_t max_nesting = 64;
const std::vector<std::string> part_keys{"in", "out", "params", "nodes", "desc"};
const std::vector<std::string> use_keys{"part", "in", "desc", "disabled"};
// Node names cannot begin so: what stands before the nodes of a part that nothing uses.
constexpr char rehearsal = '(';

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
  Place nodes_place;
  // Faulty, so that there may be more of them than is known.
  bool ins_partial = false, outs_partial = false, params_partial = false;
  bool used = false, expanded = false;
};

// ---- the definitions ----------------------------------------------------------------------------

class PartReader {
 public:
  PartReader(Reading& reading, Part& part, const Json& written)
      : reading_(reading), part_(part), written_(written), path_("parts." + part.name) {}

  void run() {
    if (!expect_object(reading_, written_, part_.place, path_)) return;
    members_ = Members(reading_, written_, part_.place, path_, part_keys, " in a part");
    if (const Json* in = members_.find("in")) ins(*in, members_.place("in"));
    if (const Json* out = members_.find("out")) outs(*out, members_.place("out"));
    if (const Json* params = members_.find("params")) this->params(*params);
    if (const Json* desc = members_.find("desc"); desc && !desc->is_string())
      wrong("SL0201", "desc", "a string", *desc);
    nodes(members_.find("nodes"));
  }

 private:
  void ins(const Json& in, const Place& place) {
    if (in.is_string()) return in_name(in, place);
    if (!in.is_array()) {
      part_.ins_partial = true;
      return wrong("SL0217", "in", "a name or a list of names", in,
                   "for example [\"image\", \"label\"]");
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].is_string()) {
        in_name(in[i], place.child(i));
      } else {
        part_.ins_partial = true;
        reading_.error("SL0217", "expected the name of an input, found " + describe_json(in[i]),
                       place.child(i), path_ + ".in." + std::to_string(i));
      }
    }
  }

  void in_name(const Json& name, const Place& place) {
    const auto& text = name.get_ref<const std::string&>();
    if (!is_name(text, false)) {
      part_.ins_partial = true;
      reading_.error("SL0204", "\"" + text + "\" cannot be the name of an input", place,
                     path_ + ".in", "use letters, digits, _ and -");
    } else if (contains(part_.ins, text)) {
      reading_.error("SL0211", "the part has an input \"" + text + "\" already", place,
                     path_ + ".in");
    } else {
      part_.ins.push_back(text);
    }
  }

  void outs(const Json& out, const Place& place) {
    if (out.is_string()) {
      part_.outs.emplace_back("", Ref{out.get<std::string>(), "", place, path_ + ".out"});
      return;
    }
    if (!out.is_object()) {
      part_.outs_partial = true;
      return wrong("SL0217", "out", "\"node\", \"node.port\" or {\"port\": \"node.port\"}", out);
    }
    for (const auto& [port, ref] : out.items()) {
      const Place at = place.child(port);
      const std::string path = path_ + ".out." + port;
      if (ref.is_string()) {
        part_.outs.emplace_back(port, Ref{ref.get<std::string>(), "", at, path});
      } else {
        part_.outs_partial = true;
        reading_.error("SL0217", "expected \"node\" or \"node.port\", found " + describe_json(ref),
                       at, path);
      }
    }
  }

  void params(const Json& params) {
    const Place place = members_.place("params");
    part_.params_partial =
        !expect_object(reading_, params, place, path_ + ".params", "\"name\": default");
    if (part_.params_partial) return;
    for (const auto& [key, value] : params.items())
      if (contains(use_keys, key) || key == "type")
        reading_.error("SL0204", "a part's parameter cannot be called \"" + key + "\"",
                       place.child(key).key(), path_ + ".params." + key,
                       "\"" + key + "\" has a meaning of its own");
    part_.params = bind_values(reading_, params, place, path_ + ".params", reading_.scope());
  }

  void nodes(const Json* nodes) {
    if (!nodes) {
      reading_.error("SL0219", "part \"" + part_.name + "\" has no \"nodes\"", part_.place.key(),
                     path_, "add \"nodes\": {...}");
    } else if (expect_object(reading_, *nodes, members_.place("nodes"), path_ + ".nodes",
                             "\"name\": {\"type\": ...}")) {
      part_.nodes = nodes;
      part_.nodes_place = members_.place("nodes");
    }
  }

  void wrong(const char* code, const std::string& key, const std::string& expected,
             const Json& found, const std::string& hint = "") {
    reading_.error(code, "expected " + expected + ", found " + describe_json(found),
                   members_.place(key), path_ + "." + key, hint);
  }

  Reading& reading_;
  Part& part_;
  const Json& written_;
  std::string path_;
  Members members_;
};

// ---- the uses -----------------------------------------------------------------------------------

class Expander {
 public:
  Expander(Reading& reading, InnerOverrides& inner) : reading_(reading), inner_(inner) {}

  Expanded run() {
    read_parts();
    const Json* written = reading_.top.find("nodes");
    const Place place = reading_.top.place("nodes");
    if (!written)
      reading_.error("SL0210", "the graph has no \"nodes\"", {reading_.document, ""}, "");
    else if (expect_object(reading_, *written, place, "nodes", "\"name\": {\"type\": ...}")) {
      if (written->empty())
        reading_.error("SL0210", "the graph has no nodes", place, "nodes",
                       "a node is written \"name\": {\"type\": ...}");
      nodes(*written, place, {"", "nodes.", reading_.scope()});
    }
    for (auto& [name, part] : parts_)
      if (!part.expanded) rehearse(part);
    for (const auto& [name, o] : inner_) unused(name, o);
    return std::move(out_);
  }

 private:
  // Where nodes are read: what stands before their names, and of their paths.
  struct Level {
    std::string prefix, path;
    Scope scope;
  };

  void read_parts() {
    const Json* written = reading_.top.find("parts");
    const Place place = reading_.top.place("parts");
    if (!written) return;
    parts_partial_ =
        !expect_object(reading_, *written, place, "parts", "\"name\": {\"nodes\": ...}");
    if (parts_partial_) return;
    for (const auto& [name, part] : written->items()) {
      parts_[name].name = name;
      parts_[name].place = place.child(name);
      PartReader(reading_, parts_[name], part).run();
    }
  }

  void nodes(const Json& object, const Place& place, const Level& level) {
    for (const auto& [key, written] : object.items()) {
      const std::string name = level.prefix + key, path = level.path + key;
      const Place here = place.child(key);
      if (!is_name(key, true))
        reading_.error("SL0204", "\"" + key + "\" cannot be the name of a node", here.key(), path,
                       "use letters, digits, _ and -");
      const bool is_new = claim(name, here, path);
      if (!expect_object(reading_, written, here, path)) continue;
      if (open_.empty()) outermost_ = {here.key(), path};
      if (++count_ > max_nodes) return too_many();
      WrittenNode node = read(written, here, name, level, key);
      if (node.find("part")) {
        if (is_new) use(node);
      } else {
        if (is_new) {
          out_.names[name].kind = Name::Kind::node;
          out_.names[name].node = static_cast<int>(out_.nodes.size());
        }
        out_.nodes.push_back(std::move(node));
      }
    }
  }

  void too_many() {
    if (count_ > max_nodes + 1) return;  // said
    std::string chain;
    for (const auto& name : open_) chain += (chain.empty() ? "" : " -> ") + name;
    reading_
        .error("SL0215", "parts expand to more than 100000 nodes", outermost_.first,
               outermost_.second)
        .notes = {"parts in parts: " + chain};
  }

  // False where the name is taken: by a part's input, or by a name with '/' in it.
  bool claim(const std::string& name, const Place& place, const std::string& path) {
    const auto [at, is_new] = out_.names.try_emplace(name);
    if (is_new)
      at->second.place = place.key();
    else
      reading_.error("SL0211", "the name \"" + name + "\" is taken already", place.key(), path)
          .notes = {"the other one stands at " + at->second.place.str()};
    return is_new;
  }

  WrittenNode read(const Json& written, const Place& place, const std::string& name,
                   const Level& level, const std::string& key) {
    const auto [first, last] = inner_.equal_range(name);
    WrittenNode node;
    const std::string path = level.path + key;
    if (first == last) {
      static_cast<Written&>(node) = read_object(reading_, written, place, path, level.scope);
    } else {
      Json changed = written;
      for (auto o = first; o != last; ++o) {
        o->second.used = true;
        if (const auto why = apply_inner(changed, o->second); !why.empty())
          reading_.error("SL0501", why, o->second.place, path);
      }
      static_cast<Written&>(node) = read_object(reading_, changed, place, path, level.scope);
    }
    mend_kind(reading_, node, false);
    node.name = name;
    node.prefix = level.prefix;
    node.rehearsed = name.front() == rehearsal;
    for (auto o = first; o != last; ++o)
      for (Field& field : node.fields)
        if (field.key == o->second.keys.front()) field.place = o->second.place;
    return node;
  }

  // ---- uses of parts ----------------------------------------------------------------------------

  void use(WrittenNode& node) {
    if (node.find("type"))
      reading_.error("SL0209", "\"" + node.name + "\" has both \"type\" and \"part\"",
                     node.find("part")->place.key(), node.path, "remove one of them");
    const bool off = is_disabled(node);
    ParamSpec text;
    text.name = "desc";
    text.type = "string";
    if (const Field* desc = node.find("desc")) accepts(reading_, *desc, text, node.path + ".desc");
    const Field& field = *node.find("part");
    Part* part = field.value ? find_part(node, field) : nullptr;
    if (part) part->used = true;
    if (!part || !part->nodes) {
      const Field* in = node.find("in");
      if (in && in->value) is_input_form(reading_, *in, {}, node.path + ".in");
      return;
    }
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
    connect_use(node, *part, off);
  }

  void connect_use(WrittenNode& node, Part& part, bool off) {
    Bindings params = bind_params(node, part);
    std::set<int> mentioned;
    const std::string owner = "part \"" + part.name + "\"";
    std::vector<std::pair<int, Ref>> inputs;
    if (!part.ins.empty())
      inputs = read_inputs(reading_, node, node.prefix, part.ins, owner, mentioned, "SL0321");
    else if (!part.ins_partial && node.find("in"))
      reading_.error("SL0321", owner + " takes no input", node.find("in")->place.key(),
                     node.path + ".in", "its \"in\" would name them");
    std::vector<std::string> lacking;
    for (std::size_t i = 0; i < part.ins.size(); ++i)
      if (!mentioned.count(static_cast<int>(i))) lacking.push_back(part.ins[i]);
    if (!lacking.empty() && !part.ins_partial)
      not_connected(reading_, node, "SL0322", lacking, owner, part.ins);
    if (off) return disable(node, part, inputs);
    const std::string inside = node.name + "/";
    enter(part, inside, {inside, node.path + "/", scope_of(part, params)}, &inputs);
    names_of_outs(out_.names[node.name], part, inside);
  }

  Scope scope_of(const Part& part, Bindings& params) {
    return {&params, &reading_.vars, reading_.vars_partial || part.params_partial};
  }

  void names_of_outs(Name& name, const Part& part, const std::string& inside) {
    if (part.outs_partial) return;  // stays faulty: nothing is said of who reads it
    name.kind = Name::Kind::part;
    for (const auto& [port, ref] : part.outs) {
      name.outs.emplace_back(port, ref);
      name.outs.back().second.prefix = inside;
    }
  }

  // The part's nodes as nodes of the graph. Without inputs what they read of them is unknown.
  void enter(Part& part, const std::string& inside, const Level& level,
             const std::vector<std::pair<int, Ref>>* inputs) {
    part.expanded = true;
    if (part.ins_partial) out_.partial.insert(inside);
    for (std::size_t i = 0; i < part.ins.size(); ++i) {
      Name& input = out_.names[inside + part.ins[i]];
      input.place = part.place.key();
      if (!inputs) continue;
      input.kind = Name::Kind::input;
      for (const auto& [port, ref] : *inputs)
        if (port == static_cast<int>(i)) input.outer = ref;
    }
    open_.push_back(part.name);
    nodes(*part.nodes, part.nodes_place, level);
    open_.pop_back();
  }

  // A part that nothing uses is checked as if something did.
  void rehearse(Part& part) {
    if (!part.used) out_.unused_parts.emplace_back(part.name, part.place.key());
    if (!part.nodes) return;
    const std::string name = rehearsal + part.name, inside = name + "/";
    Bindings params = part.params;
    enter(part, inside, {inside, "parts." + part.name + ".nodes.", scope_of(part, params)},
          nullptr);
    names_of_outs(out_.names[name], part, inside);
  }

  Part* find_part(const WrittenNode& node, const Field& field) {
    const std::string path = node.path + ".part";
    if (!field.value->is_string()) {
      reading_.error_at(field, "SL0201",
                        "expected the name of a part, found " + describe_json(*field.value), path);
      return nullptr;
    }
    const auto& name = field.value->get_ref<const std::string&>();
    const auto at = parts_.find(name);
    if (at != parts_.end()) return &at->second;
    if (parts_partial_) return nullptr;
    std::vector<std::string> known;
    for (const auto& [key, part] : parts_) known.push_back(key);
    std::string hint = did_you_mean(name, known);
    if (reading_.catalogue.find(name))
      hint = "\"" + name + "\" is a node type: write \"type\"";
    else if (hint.empty())
      hint = known.empty() ? "the graph has no \"parts\"" : "there is " + listed(known);
    if (field.origin(""))
      reading_.error_at(field, "SL0206", "unknown part \"" + name + "\"", path, hint);
    else
      reading_.diagnostics.error_once("SL0206", "unknown part \"" + name + "\"", field.place, path,
                                      hint);
    return nullptr;
  }

  bool is_disabled(const WrittenNode& node) {
    ParamSpec spec;
    spec.name = "disabled";
    spec.type = "bool";
    const Field* field = node.find("disabled");
    return field && accepts(reading_, *field, spec, node.path + ".disabled") &&
           field->value->get<bool>();
  }

  // A disabled part with one input and one output hands its input on; one without outputs is left
  // out with all its nodes.
  void disable(const WrittenNode& node, const Part& part,
               const std::vector<std::pair<int, Ref>>& inputs) {
    Name& name = out_.names[node.name];
    if (part.ins_partial || part.outs_partial) return;
    if (part.ins.size() == 1 && part.outs.size() == 1) {
      name.kind = Name::Kind::input;
      if (!inputs.empty()) name.outer = inputs.front().second;
    } else if (part.outs.empty()) {
      name.kind = Name::Kind::part;
    } else {
      reading_.error_at(
          *node.find("disabled"), "SL0309",
          "part \"" + part.name + "\" cannot be disabled: it has " +
              counted(part.ins.size(), "input") + " and " + counted(part.outs.size(), "output"),
          node.path + ".disabled", "only a part with one of each, or without outputs");
    }
  }

  Bindings bind_params(WrittenNode& node, const Part& part) {
    Bindings params = part.params;
    std::vector<std::string> known = use_keys, names;
    for (const auto& [key, binding] : part.params) names.push_back(key);
    known.insert(known.end(), names.begin(), names.end());
    known.push_back("type");  // SL0209
    if (!part.params_partial)
      mend_keys(reading_, node, known, use_keys, "SL0235", "part \"" + part.name + "\"",
                names.empty() ? "it has no \"params\"" : "it has " + listed(names));
    for (const Field& field : node.fields)
      if (const auto at = params.find(field.key); at != params.end())
        at->second = {field.value, field.place, node.path + "." + field.key};
    return params;
  }

  void unused(const std::string& name, const InnerOverride& o) {
    if (o.used) return;
    std::vector<std::string> known;
    for (const auto& node : out_.nodes)
      if (!node.rehearsed) known.push_back(node.name);
    for (const auto& [other, meaning] : out_.names)
      if (meaning.kind == Name::Kind::part && is_name(other, true)) known.push_back(other);
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
  bool parts_partial_ = false;
  std::vector<std::string> open_;            // parts that are being expanded
  std::pair<Place, std::string> outermost_;  // the use that all of them stand in
  std::size_t count_ = 0;                    // nodes and uses of parts so far
  Expanded out_;
};

}  // namespace

Expanded expand(Reading& reading, InnerOverrides& inner) { return Expander(reading, inner).run(); }

}  // namespace sluice::reading
