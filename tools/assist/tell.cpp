#include "tools/assist/tell.h"

#include <algorithm>

#include "tools/assist/describe.h"
#include "tools/assist/spot.h"

namespace sluice::assist {
namespace {

using Kind = Value::Kind;
using Is = Owner::Is;

std::string code(const std::string& text) { return "`" + text + "`"; }

std::string about(const ParamSpec& p) {
  return "**" + p.name + "** " + code(type_of(p)) + ", " + default_of(p) + "\n\n" + p.doc;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : " · ") + word;
  return out;
}

// The page of `sluice inspect`.
std::string about(const Spec& s) {
  std::string out = "**" + s.name + "**\n\n" + s.doc + "\n\n*" + joined(traits(s)) + "*\n";
  std::string rows;
  for (const auto& p : s.ins)
    rows += "- in " + code(p.name) + (p.optional ? " (optional) " : " ") + p.doc + "\n";
  for (const auto& p : s.outs) rows += "- out " + code(p.name) + " " + p.doc + "\n";
  auto lines = fields_of(s);
  for (auto& row : rules_of(s)) lines.push_back(std::move(row));
  for (const auto& row : lines) rows += "- " + row[0] + " " + code(row[1]) + " " + row[2] + "\n";
  if (!rows.empty()) out += "\n" + rows;
  if (!s.params.empty()) out += "\n";
  for (const auto& p : s.params)
    out += "- " + code(p.name) + " " + type_of(p) + ", " + default_of(p) + "\n";
  return out + "\n```json\n" + example(s) + "\n```\n";
}

std::string flow_of(const Leaving& l) {
  std::string out;
  for (const auto& [name, what] : l.fields) out += "\n" + name + " " + what;
  return out.empty() ? "" : "\n\nwhat leaves it:\n```" + out + "\n```\n";
}

class Teller {
 public:
  Teller(const Analysis& a, std::size_t at)
      : a_(a), at_(at), path_(path_to(a.tree(), at)), names_(find_names(a)) {}

  std::optional<Page> run() {
    if (path_.size() < 2 || in_comment(a_.tree(), at_)) return std::nullopt;
    const Value& here = *path_.back();
    const bool on_key = !here.key.empty() && here.key.touches(at_);
    if (!on_key && (here.is(Kind::object) || here.is(Kind::array))) return std::nullopt;
    Page page{on_key ? here.key : here.span, ""};
    if (const Occurrence* o = names_.at(at_)) {
      page.span = o->span;
      page.markdown = named(*o);
    }
    if (page.markdown.empty()) page.markdown = member(on_key);
    if (page.markdown.empty()) return std::nullopt;
    return page;
  }

 private:
  std::string member(bool on_key) const {
    std::size_t level = path_.size() - 1;
    while (level > 0 && path_[level]->key.empty()) --level;
    if (level == 0) return "";
    const std::string& key = path_[level]->name;
    const Owner o = owner_of(a_, path_, level - 1);
    if (const ParamSpec* p = param_of(o, key)) return about(*p);
    if (o.spec && o.is == Is::ports && on_key)
      if (const int port = o.spec->find_in(key); port >= 0)
        return "**" + key + "** " + o.spec->ins[static_cast<std::size_t>(port)].doc;
    for (const Key& k : plain_keys(o))
      if (k.name == key) return "**" + key + "** " + k.doc;
    return "";
  }

  std::string named(const Occurrence& o) const {
    const Name& name = o.of;
    switch (name.thing) {
      case Thing::type:
        if (const Spec* spec = a_.catalogue->find(name.name)) return about(*spec);
        return "";
      case Thing::node:
        return node(name);
      case Thing::model:
        return definition(name, "network");
      case Thing::part:
        return definition(name, "part");
      case Thing::variable:
        return variable(name);
      case Thing::field:
        return field(name, o);
    }
    return "";
  }

  // The member that defines a name, and its text's source.
  std::pair<const Value*, const Source*> defined(const Name& name) const {
    const Occurrence* o = names_.definition(name);
    if (!o) return {};
    const Source& source = a_.sources[o->source];
    const auto path = path_to(source.tree, o->span.begin);
    return {path.empty() ? nullptr : path.back(), &source};
  }

  static std::string excerpt(const Value& v, const Source& s) {
    std::string text = s.text.substr(v.span.begin, v.span.end - v.span.begin);
    constexpr std::size_t most = 400;
    if (text.size() > most) text.replace(most, std::string::npos, "...");
    return text;
  }

  std::string node(const Name& name) const {
    const auto [v, source] = defined(name);
    if (!v) return "";
    std::string out = "**" + name.name + "**";
    const Spec* spec = a_.catalogue->find(v->text_of("type"));
    if (spec) out += " " + code(spec->name) + "\n\n" + spec->doc;
    if (const auto part = v->text_of("part"); !part.empty())
      out += " part " + code(std::string(part));
    if (!spec && v->key.empty()) out += ": an input of the part";
    if (const auto desc = v->text_of("desc"); !desc.empty()) out += "\n\n" + std::string(desc);
    if (const Leaving* l = leaving(a_, name.scope, name.name)) out += flow_of(*l);
    return out;
  }

  std::string definition(const Name& name, const char* what) const {
    const auto [v, source] = defined(name);
    if (!v) return "";
    return "**" + name.name + "** " + what + "\n```json\n" + excerpt(*v, *source) + "\n```\n";
  }

  std::string variable(const Name& name) const {
    const auto [v, source] = defined(name);
    if (!v) return "";
    std::string out = "**" + name.name + "**" +
                      (name.scope.empty() ? "" : ", a parameter of the part " + name.scope) +
                      "\n```json\n" + excerpt(*v, *source) + "\n```\n";
    std::string users;
    for (const Occurrence& o : names_.all) {
      if (o.defines || !(o.of == name)) continue;
      std::string path = pointer_of(path_to(a_.sources[o.source].tree, o.span.begin));
      std::replace(path.begin(), path.end(), '/', '.');
      users += "\n- " + code(path.substr(std::min<std::size_t>(1, path.size())));
    }
    return out + (users.empty() ? "\nnothing uses it" : "\nused by" + users);
  }

  std::string field(const Name& name, const Occurrence&) const {
    std::size_t level = path_.size() - 1;
    while (level > 0 && path_[level]->key.empty()) --level;
    const Owner owner = level > 0 ? owner_of(a_, path_, level - 1) : Owner();
    std::string out = "**" + name.name + "** a field of the samples";
    if (owner.node)
      for (const auto& from : inputs_of(*owner.node))
        if (const Leaving* l = leaving(a_, owner.scope, from))
          for (const auto& [field, what] : l->fields)
            if (field == name.name) out += "\n\narrives from " + code(from) + ": " + code(what);
    if (const std::string param = member(false); !param.empty()) out += "\n\n" + param;
    return out;
  }

  const Analysis& a_;
  const std::size_t at_;
  const std::vector<const Value*> path_;
  const Names names_;
};

// SymbolKind: 2 module, 12 function, 13 variable, 5 class, 7 property
Symbol symbol(const Value& v, int kind) {
  const std::string type(v.text_of(v.find("part") ? "part" : "type"));
  const std::string name = v.name.empty() ? "\"\"" : v.name;  // editors want one
  return {name, type, kind, {v.key.begin, std::max(v.key.end, v.span.end)}, v.key, {}};
}

void collect(const Value& nodes, const std::string& scope, const Analysis& a, Span within,
             std::vector<Hint>& out) {
  for (const Value& n : nodes.members) {
    if (n.span.end < within.begin || n.key.begin > within.end || !n.is(Kind::object)) continue;
    const Leaving* l = leaving(a, scope, n.name);
    if (!l || l->changed.empty()) continue;
    std::string text;
    for (const auto& line : l->changed) text += (text.empty() ? "→ " : ", ") + line;
    out.push_back({n.span.end, text});
  }
}

}  // namespace

std::optional<Page> hover(const Analysis& a, std::size_t at) { return Teller(a, at).run(); }

std::vector<Symbol> outline(const Analysis& a) {
  std::vector<Symbol> all;
  for (const Value& member : a.tree().root.members) {
    if (member.key.empty()) continue;
    Symbol top = symbol(member, 2);
    const int kind = member.name == "nodes"    ? 12
                     : member.name == "vars"   ? 13
                     : member.name == "models" ? 5
                     : member.name == "parts"  ? 2
                                               : 7;
    for (const Value& one : member.members) {
      if (one.key.empty()) continue;
      Symbol s = symbol(one, kind);
      if (member.name == "parts")
        if (const Value* nodes = one.find("nodes"))
          for (const Value& n : nodes->members)
            if (!n.key.empty()) s.members.push_back(symbol(n, 12));
      top.members.push_back(std::move(s));
    }
    all.push_back(std::move(top));
  }
  return all;
}

std::vector<Hint> hints(const Analysis& a, Span within) {
  std::vector<Hint> out;
  const Value& root = a.tree().root;
  if (const Value* nodes = root.find("nodes")) collect(*nodes, a.main().part, a, within, out);
  if (const Value* parts = root.find("parts"))
    for (const Value& p : parts->members)
      if (const Value* nodes = p.find("nodes")) collect(*nodes, p.name, a, within, out);
  std::sort(out.begin(), out.end(), [](const Hint& x, const Hint& y) { return x.at < y.at; });
  return out;
}

}  // namespace sluice::assist
