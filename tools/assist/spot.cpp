#include "tools/assist/spot.h"

#include <algorithm>

namespace sluice::assist {

using Kind = Value::Kind;
using Is = Owner::Is;

namespace {

// What a difference leaves out is what it differs from.
std::string_view type_in(const Analysis& a, std::string_view group, const Value& v) {
  if (v.find("type")) return v.text_of("type");
  for (std::size_t i = 1; i < a.sources.size(); ++i) {
    const Value* all = a.sources[i].part.empty() ? a.sources[i].tree.root.find(group) : nullptr;
    if (const Value* same = all ? all->find(v.name) : nullptr) return same->text_of("type");
  }
  return "";
}

void as_node(const Analysis& a, const Value& v, Owner& o) {
  o.is = v.find("part") ? Is::use : Is::node;
  o.node = &v;
  if (o.is == Is::use) return;
  o.spec = a.catalogue->find(type_in(a, "nodes", v));
  if (o.spec && o.spec->is_network) o.spec = nullptr;
  o.beside.push_back(&node_settings_spec());
}

}  // namespace

Owner owner_of(const Analysis& a, const std::vector<const Value*>& path, std::size_t level) {
  Owner o;
  if (level >= path.size()) return o;
  o.object = path[level];
  // Names from the root on; a part's own file begins within a part.
  std::vector<std::string> at;
  if (!a.main().part.empty()) at = {"parts", a.main().part};
  for (std::size_t i = 1; i <= level; ++i) at.push_back(path[i]->name);
  std::size_t i = 0;
  if (at.empty()) {
    o.is = Is::graph;
    return o;
  }
  if (at.size() >= 2 && at[0] == "parts") {
    o.scope = at[1];
    i = 2;
    if (at.size() == 2) {
      o.is = Is::part;
      return o;
    }
  }
  const std::size_t rest = at.size() - i;
  if (at[i] == "nodes" && rest >= 2) {
    const Value& node = *path[level - (rest - 2)];
    if (rest == 2) {
      as_node(a, node, o);
    } else if (rest == 3 && at[i + 2] == "in") {
      as_node(a, node, o);
      o.is = Is::ports;
    } else if (path[level]->find("type") || path[level]->is(Kind::object)) {
      as_node(a, node, o);
      o.spec = a.catalogue->find(path[level]->text_of("type"));
      o.beside.clear();
      o.is = Is::held;
    }
    return o;
  }
  if (i == 0 && at[0] == "models" && rest == 2) {
    o.is = Is::model;
    o.spec = a.catalogue->find(type_in(a, "models", *path[level]));
    if (o.spec && !o.spec->is_network) o.spec = nullptr;
    o.beside.push_back(&model_settings_spec());
  } else if (i == 0 && at[0] == "models" && rest == 4) {
    const Spec* network = a.catalogue->find(type_in(a, "models", *path[level - 2]));
    const ParamSpec* all = network ? network->find_param(at[2]) : nullptr;
    if (!all || !all->members) return o;
    o.is = Is::layer;
    o.node = path[level - 1];
    o.types = all->members.get();
    const auto type = std::ranges::find(*o.types, path[level]->text_of("type"), &Spec::name);
    if (type != o.types->end()) o.spec = &*type;
  } else if (i == 0 && at[0] == "run" && rest == 1) {
    o.is = Is::run;
    o.spec = &run_spec();
  } else if (i == 0 && at[0] == "run" && rest == 2 && at[1] == "stop") {
    o.is = Is::stop;
    o.spec = &stop_spec();
  } else if (i == 0 && at[0] == "run" && rest == 2 && at[1] == "checkpoint") {
    o.is = Is::checkpoint;
    o.spec = &checkpoint_spec();
  } else if (rest == 1) {
    o.is = Is::names;
  }
  return o;
}

const ParamSpec* param_of(const Owner& owner, const std::string& key) {
  if (owner.is == Is::ports) return nullptr;
  if (owner.spec)
    if (const ParamSpec* p = owner.spec->find_param(key)) return p;
  for (const Spec* s : owner.beside)
    if (const ParamSpec* p = s->find_param(key)) return p;
  return nullptr;
}

std::vector<Key> plain_keys(const Owner& owner) {
  const Key type{"type", "The node's type; `sluice inspect` lists them all."},
      in{"in",
         "What it reads: `\"node\"`, `\"node.port\"` or `{\"port\": \"node.port\"}` where there "
         "are "
         "several in-ports."},
      part{"part", "The part that stands here, instead of a type."},
      desc{"desc", "A note; the picture shows it."};
  switch (owner.is) {
    case Is::graph:
      return {
          {"$schema", "For editors without this server."},
          {"name", "What the graph is called."},
          {"desc", "What it is for."},
          {"x-base", "What this file differs from, where it says only that: a file or several."},
          {"vars", "Values by name; `\"@name\"` stands for one."},
          {"run", "Settings of the whole run."},
          {"models", "Networks by name."},
          {"parts", "Sub-graphs that are written once and used by name."},
          {"nodes", "The nodes by name; the order means nothing."}};
    case Is::run:
      return {{"stop", stop_spec().doc}, {"checkpoint", checkpoint_spec().doc}};
    case Is::model:
      return {{"type", "The network's type."}};
    case Is::node:
      return owner.spec ? std::vector<Key>{type, in} : std::vector<Key>{type, in, part};
    case Is::use:
      return {part, in, desc, {"disabled", "Hands its input on, or leaves it out."}};
    case Is::part:
      return {{"in", "The name of its input, or a list of them."},
              {"out", "What it gives: `\"node\"`, or `{\"port\": \"node.port\"}`."},
              {"params", "Its parameters with their defaults; `\"@name\"` stands for one."},
              {"nodes", "Its nodes by name."},
              {"desc", "What it is for."}};
    case Is::held:
      return {{"type", "The transform's type."}};
    case Is::layer:
      return {{"type", "The layer's type."},
              {"in", "The layer that it reads, or a list of them."},
              desc};
    default:
      return {};
  }
}

const Value* find_part(const Analysis& a, const std::string& name) {
  if (name.empty()) return nullptr;
  for (const Source& s : a.sources)
    if (s.part == name) return &s.tree.root;
  const Value* part = a.member("parts", name);
  return part && part->is(Kind::object) ? part : nullptr;
}

const Value* find_node(const Analysis& a, const std::string& scope, const std::string& name) {
  if (scope.empty()) return a.member("nodes", name);
  const Value* part = find_part(a, scope);
  const Value* nodes = part ? part->find("nodes") : nullptr;
  return nodes ? nodes->find(name) : nullptr;
}

const Leaving* leaving(const Analysis& a, const std::string& scope, const std::string& name) {
  std::string in = scope, node = name;
  for (int depth = 0; depth < 64; ++depth) {
    const Value* v = find_node(a, in, node);
    if (!v) return nullptr;
    const std::string part(v->text_of("part"));
    if (part.empty()) {
      Place place{nullptr, in.empty() ? "" : Place{nullptr, "/parts"}.child(in).pointer};
      const auto at = a.flows.find(place.child("nodes").child(node).pointer);
      return at == a.flows.end() ? nullptr : &at->second;
    }
    const Value* inside = find_part(a, part);
    const Value* out = inside ? inside->find("out") : nullptr;
    if (out && out->is(Kind::object) && !out->members.empty()) out = &out->members.front();
    if (!out || !out->is(Kind::text)) return nullptr;
    in = part;
    node = out->text.substr(0, out->text.find('.'));
  }
  return nullptr;
}

std::vector<std::string> inputs_of(const Value& node) {
  std::vector<std::string> names;
  const Value* in = node.find("in");
  if (!in) return names;
  const auto add = [&](const Value& v) {
    if (v.is(Kind::text)) names.push_back(v.text.substr(0, v.text.find('.')));
  };
  add(*in);
  for (const Value& port : in->members) add(port);
  return names;
}

}  // namespace sluice::assist
