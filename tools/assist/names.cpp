#include "tools/assist/names.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "engine/graph/graph_reader.h"
#include "tools/assist/edits.h"
#include "tools/assist/spot.h"

namespace sluice::assist {
namespace {

namespace fs = std::filesystem;
using Kind = Value::Kind;

// Variables and parameters of parts whose values are names of things: "@keys", where `keys` names
// fields.
using Holders = std::map<std::pair<std::string, std::string>, Thing>;

class Walk {
 public:
  Walk(const Analysis& a, Names& names, Holders& holders)
      : a_(a), names_(names), holders_(holders) {}

  void run() {
    const Source& first = a_.main();
    collect_scopes();
    if (!first.part.empty()) {
      part(first.part, first.tree.root);
      return;
    }
    for (source_ = 0; source_ < a_.sources.size(); ++source_) {
      const Source& s = a_.sources[source_];
      if (s.part.empty())
        graph(s.tree.root);
      else
        part(s.part, s.tree.root);
    }
  }

 private:
  // ---- what there is ----------------------------------------------------------------------------

  // Nodes and parts' inputs of each scope, and the parameters of parts.
  std::map<std::string, std::map<std::string, const Value*>> nodes_;
  std::map<std::string, std::set<std::string>> params_;

  void collect_nodes(const std::string& scope, const Value* nodes) {
    if (!nodes) return;
    for (const Value& n : nodes->members) nodes_[scope].try_emplace(n.name, &n);
  }

  void collect_part(const std::string& name, const Value& part) {
    collect_nodes(name, part.find("nodes"));
    if (const Value* in = part.find("in")) {
      if (in->is(Kind::text)) nodes_[name].try_emplace(in->text, in);
      for (const Value& one : in->members) nodes_[name].try_emplace(one.text, &one);
    }
    if (const Value* params = part.find("params"))
      for (const Value& p : params->members) params_[name].insert(p.name);
  }

  void collect_scopes() {
    const Source& first = a_.main();
    if (!first.part.empty()) return collect_part(first.part, first.tree.root);
    for (const Source& s : a_.sources) {
      if (!s.part.empty()) {
        collect_part(s.part, s.tree.root);
        continue;
      }
      collect_nodes("", s.tree.root.find("nodes"));
      if (const Value* parts = s.tree.root.find("parts"))
        for (const Value& p : parts->members)
          if (p.is(Kind::object)) collect_part(p.name, p);
    }
  }

  // ---- what is said -----------------------------------------------------------------------------

  void add(Thing thing, const std::string& scope, std::string name, Span span, bool defines) {
    names_.all.push_back({{thing, scope, std::move(name)}, source_, span, defines});
  }

  // Of a string's bytes, those between its quotes; nothing where escapes make them another length.
  static std::optional<Span> inside(const Value& v) {
    if (v.span.end - v.span.begin != v.text.size() + (v.closed ? 2 : 1)) return std::nullopt;
    return Span{v.span.begin + 1, v.span.begin + 1 + v.text.size()};
  }

  void at_key(Thing thing, const std::string& scope, const Value& v, bool defines) {
    if (v.key.end - v.key.begin != v.name.size() + 2) return;
    add(thing, scope, v.name, {v.key.begin + 1, v.key.end - 1}, defines);
  }

  // "@name"; true where it is one.
  bool variable(const Value& v, const std::string& scope) {
    if (!v.is(Kind::text) || !v.text.starts_with('@')) return false;
    const auto span = inside(v);
    const std::string name = v.text.substr(1);
    if (span) add(Thing::variable, owner(scope, name), name, {span->begin + 1, span->end}, false);
    return true;
  }

  std::string owner(const std::string& scope, const std::string& name) const {
    const auto at = params_.find(scope);
    return at != params_.end() && at->second.count(name) ? scope : "";
  }

  void variables(const Value& v, const std::string& scope) {
    variable(v, scope);
    for (const Value& m : v.members) variables(m, scope);
  }

  // "load", "load.image", "pre/load", "val_dice.mean"
  void reference(const Value& v, const std::string& scope) {
    if (!v.is(Kind::text) || v.text.starts_with('@')) return;
    if (const auto span = inside(v)) path(v.text, span->begin, scope);
  }

  void path(const std::string& text, std::size_t begin, const std::string& scope) {
    const auto& known = nodes_[scope];
    const auto dot = std::min(text.find('.'), text.size());
    std::size_t end = dot;  // of the longest name that there is
    while (end > 0 && !known.count(text.substr(0, end))) {
      const auto slash = text.rfind('/', end - 1);
      end = slash == std::string::npos ? 0 : slash;
    }
    if (end == 0) end = dot;
    const std::string name = text.substr(0, end);
    add(Thing::node, scope, name, {begin, begin + end}, false);
    if (end >= text.size() || text[end] != '/') return;
    const auto node = known.find(name);
    if (node == known.end()) return;
    const std::string part(node->second->text_of("part"));
    if (nodes_.count(part)) path(text.substr(end + 1), begin + end + 1, part);
  }

  // Strings that name a thing, in a value that may be a list or an object of them.
  void things(const Value& v, Thing thing, const std::string& scope, bool keys = false,
              bool defines = false) {
    if (v.is(Kind::text) && v.text.starts_with('@')) {
      holders_.try_emplace({owner(scope, v.text.substr(1)), v.text.substr(1)}, thing);
    } else if (v.is(Kind::text) && !keys && !v.text.empty()) {
      if (const auto span = inside(v)) add(thing, "", v.text, *span, defines);
    }
    for (const Value& m : v.members) {
      if (keys && !m.key.empty())
        at_key(thing, "", m, defines);
      else
        things(m, thing, scope, keys, defines);
    }
  }

  void held(const Value& v, const std::string& scope) {
    const auto at = holders_.find({scope, v.name});
    if (at != holders_.end()) things(v, at->second, scope);
  }

  // ---- the walk ---------------------------------------------------------------------------------

  void graph(const Value& root) {
    for (const Value& member : root.members) {
      if (member.name == "vars") {
        for (const Value& v : member.members) {
          at_key(Thing::variable, "", v, true);
          held(v, "");
        }
      } else if (member.name == "models") {
        for (const Value& m : member.members) {
          at_key(Thing::model, "", m, true);
          type_of(m);
        }
      } else if (member.name == "run") {
        metric(member.find("stop"), "metric");
        metric(member.find("checkpoint"), "best");
      } else if (member.name == "parts") {
        for (const Value& p : member.members) {
          at_key(Thing::part, "", p, true);
          if (p.is(Kind::object)) part(p.name, p);
        }
        continue;  // its variables are its own
      } else if (member.name == "nodes") {
        nodes(member, "");
        continue;
      }
      variables(member, "");
    }
  }

  void metric(const Value* group, const char* key) {
    if (!group) return;
    if (const Value* name = group->find(key)) reference(*name, "");
  }

  void part(const std::string& scope, const Value& root) {
    for (const Value& member : root.members) {
      if (member.name == "in") {
        input(member, scope);
      } else if (member.name == "out") {
        reference(member, scope);
        for (const Value& out : member.members) reference(out, scope);
      } else if (member.name == "params") {
        for (const Value& p : member.members) {
          at_key(Thing::variable, scope, p, true);
          held(p, scope);
        }
        variables(member, "");
      } else if (member.name == "nodes") {
        nodes(member, scope);
      }
    }
  }

  void input(const Value& v, const std::string& scope) {
    if (v.is(Kind::text))
      if (const auto span = inside(v)) add(Thing::node, scope, v.text, *span, true);
    for (const Value& m : v.members) input(m, scope);
  }

  void nodes(const Value& all, const std::string& scope) {
    for (const Value& n : all.members) {
      at_key(Thing::node, scope, n, true);
      node(n, scope);
      variables(n, scope);
    }
  }

  // What a difference leaves out is what it differs from.
  std::string_view type_in(const Value& n, const std::string& scope) const {
    if (n.find("type") || !scope.empty()) return n.text_of("type");
    for (const Source& s : a_.sources)
      if (const Value* all = s.part.empty() ? s.tree.root.find("nodes") : nullptr)
        if (const Value* same = all->find(n.name); same && same->find("type"))
          return same->text_of("type");
    return "";
  }

  void type_of(const Value& v) {
    const Value* type = v.find("type");
    if (!type || !type->is(Kind::text)) return;
    if (const auto span = inside(*type)) add(Thing::type, "", type->text, *span, false);
  }

  void node(const Value& n, const std::string& scope) {
    const std::string part(n.text_of("part"));
    for (const Value& m : n.members) {
      if (m.name == "in") {
        reference(m, scope);
        for (const Value& port : m.members) {
          if (!part.empty()) at_key(Thing::node, part, port, false);
          reference(port, scope);
        }
      } else if (m.name == "after" || m.name == "requires") {
        reference(m, scope);
        for (const Value& one : m.members) reference(one, scope);
      } else if (m.name == "part" && m.is(Kind::text)) {
        if (const auto span = inside(m)) add(Thing::part, "", m.text, *span, false);
      } else if (!part.empty() && params_[part].count(m.name)) {
        at_key(Thing::variable, part, m, false);
        if (const auto at = holders_.find({part, m.name}); at != holders_.end())
          things(m, at->second, scope);
      }
    }
    parameters(n, scope);
  }

  void parameters(const Value& n, const std::string& scope) {
    const Spec* spec = a_.catalogue->find(type_in(n, scope));
    type_of(n);
    if (spec) {
      for (const std::string& key : spec->params_with_networks())
        if (const Value* v = n.find(key)) things(*v, Thing::model, scope);
      if (!spec->metric_param.empty())
        if (const Value* v = n.find(spec->metric_param)) reference(*v, scope);
      fields(n, *spec, scope);
    }
    // Transforms that a node holds.
    for (const Value& m : n.members)
      for (const Value& held : m.members) {
        if (held.find("type")) parameters(held, scope);
        for (const Value& deeper : held.members)
          if (deeper.find("type")) parameters(deeper, scope);
      }
  }

  void fields(const Value& n, const Spec& spec, const std::string& scope) {
    std::set<std::string> seen;
    for (const FieldRule& r : spec.rules) {
      const bool gives = r.act == FieldRule::Act::gives;
      for (const std::string& named : {r.fields, r.like}) {
        if (named.empty()) continue;
        if (!named.starts_with('@')) {
          if (seen.insert("=" + named).second)
            names_.unwritten.push_back({named, &n, source_, &spec, ""});
          continue;
        }
        const bool keys = named.ends_with("{}");
        const std::string param = named.substr(1, named.size() - (keys ? 3 : 1));
        if (!seen.insert(param).second) continue;
        if (const Value* v = n.find(param)) {
          things(*v, Thing::field, scope, keys, gives && &named == &r.fields);
        } else if (const ParamSpec* p = spec.find_param(param); p && !keys) {
          for (const Json& one : p->fallback.is_array() ? p->fallback : Json::array({p->fallback}))
            if (one.is_string() && !one.get<std::string>().empty())
              names_.unwritten.push_back({one, &n, source_, &spec, param});
        }
      }
    }
  }

  const Analysis& a_;
  Names& names_;
  Holders& holders_;
  std::size_t source_ = 0;
};

}  // namespace

Names find_names(const Analysis& a) {
  Holders holders;
  for (int round = 0;; ++round) {  // variables of variables
    Names names;
    const std::size_t before = holders.size();
    Walk(a, names, holders).run();
    if (holders.size() == before || round == 4) return names;
  }
}

std::vector<std::string> Names::known(Thing thing, const std::string& scope) const {
  std::vector<std::string> found;
  for (const Occurrence& o : all)
    if (o.of.thing == thing && o.of.scope == scope && (o.defines || thing == Thing::field))
      if (std::find(found.begin(), found.end(), o.of.name) == found.end())
        found.push_back(o.of.name);
  return found;
}

const Occurrence* Names::at(std::size_t byte) const {
  for (const Occurrence& o : all)
    if (o.source == 0 && o.span.touches(byte)) return &o;
  return nullptr;
}

const Occurrence* Names::definition(const Name& name) const {
  for (const Occurrence& o : all)
    if (o.defines && o.of == name) return &o;
  return nullptr;
}

// ---- rename -------------------------------------------------------------------------------------

namespace {

const char* word(Thing thing) {
  constexpr const char* words[] = {"node", "network", "variable", "part", "field", "type"};
  return words[static_cast<int>(thing)];
}

// The node, or one in the part that it uses.
bool draws(const Value* node, const Analysis& a, std::set<const Value*>& seen) {
  if (!node) return false;
  const Spec* spec = a.catalogue->find(node->text_of("type"));
  if (spec && spec->is_random) return true;
  const Value* part = find_part(a, std::string(node->text_of("part")));
  const Value* nodes = part && seen.insert(part).second ? part->find("nodes") : nullptr;
  return nodes && std::any_of(nodes->members.begin(), nodes->members.end(),
                              [&](const Value& n) { return draws(&n, a, seen); });
}

// What a field's name must be written for, since it is another than the default from here on.
std::string write_defaults(const Analysis& a, const Names& names, const std::string& from,
                           const std::string& to, std::vector<TextEdit>& edits) {
  std::set<std::pair<const Value*, std::string>> done;
  for (const Unwritten& u : names.unwritten) {
    if (u.field != from) continue;
    const std::string node = "\"" + u.node->name + "\" (" + u.spec->name + ")";
    if (u.param.empty()) return node + " calls it \"" + from + "\" itself";
    if (!done.insert({u.node, u.param}).second) continue;
    Json value = u.spec->find_param(u.param)->fallback;
    if (value == from) value = to;
    for (Json& one : value)
      if (one == from) one = to;
    edits.push_back(add_member(*u.node, a.sources[u.source].text, u.param, value));
    edits.back().source = u.source;
  }
  return "";
}

// A file that holds two parts is two sources, and one text.
void once_a_file(const Analysis& a, std::vector<TextEdit>& edits) {
  const auto file = [](const Source& s) { return fs::path(s.file).lexically_normal(); };
  std::set<std::tuple<std::size_t, std::size_t, std::string>> seen;
  std::vector<TextEdit> once;
  for (TextEdit& e : edits) {
    const auto first = std::ranges::find(a.sources, file(a.sources[e.source]), file);
    e.source = static_cast<std::size_t>(first - a.sources.begin());
    if (seen.emplace(e.source, e.span.begin, e.text).second) once.push_back(std::move(e));
  }
  edits = std::move(once);
}

}  // namespace

Rename rename(const Analysis& a, const Names& names, const Name& from, const std::string& to) {
  Rename out;
  const auto refuse = [&](const std::string& why) {
    out.edits.clear();
    out.refused = why;
    return out;
  };
  if (from.thing == Thing::type) return refuse("a type's name is given");
  if (!reading::is_name(to, from.thing == Thing::node))
    return refuse("\"" + to + "\" cannot be a name: use letters, digits, _ and -");
  if (to == from.name) return out;
  const auto known = names.known(from.thing, from.scope);
  if (std::find(known.begin(), known.end(), to) != known.end())
    return refuse(std::string("there is a ") + word(from.thing) + " \"" + to + "\" already");
  if (from.thing != Thing::field && !names.definition(from))
    return refuse(std::string("no ") + word(from.thing) + " is called \"" + from.name + "\"");
  for (const Occurrence& o : names.all)
    if (o.of == from) out.edits.push_back({o.source, o.span, to});
  if (from.thing == Thing::field)
    if (const auto why = write_defaults(a, names, from.name, to, out.edits); !why.empty())
      return refuse(why);
  if (from.thing == Thing::node)
    if (const Occurrence* at = names.definition(from)) {
      const auto path = path_to(a.sources[at->source].tree, at->span.begin);
      std::set<const Value*> seen;
      if (!path.empty() && draws(path.back(), a, seen))
        out.warning = "\"" + from.name +
                      "\" draws at random, and its name is the key of its draws: other results "
                      "from here on";
    }
  once_a_file(a, out.edits);
  // What is right must stay so.
  if (!a.said.diagnostics.ok()) return out;
  OpenFiles open;
  for (std::size_t i = 0; i < a.sources.size(); ++i)
    open.try_emplace(fs::path(a.sources[i].file).lexically_normal().string(),
                     applied(a.sources[i].text, out.edits, i));
  const auto after = analyse(a.main().file, applied(a.text(), out.edits), *a.catalogue, open);
  if (!after->said.diagnostics.ok())
    return refuse("then " + after->said.diagnostics.all().front().message);
  return out;
}

}  // namespace sluice::assist
