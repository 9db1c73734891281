#include "tools/assist/complete.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "tools/assist/describe.h"
#include "tools/assist/spot.h"

namespace sluice::assist {
namespace {

using Kind = Value::Kind;
using Is = Owner::Is;

std::string first_sentence(const std::string& doc) { return doc.substr(0, doc.find(". ")); }

std::string escaped(const std::string& text) {  // for a snippet
  std::string out;
  for (const char c : text) {
    if (c == '$' || c == '}' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

class Completer {
 public:
  Completer(const Analysis& a, std::size_t at)
      : a_(a), at_(at), path_(path_to(a.tree(), at)), names_(find_names(a)) {}

  Completion run() {
    if (path_.empty() || in_comment(a_.tree(), at_)) return {};
    const Value& here = *path_.back();
    const bool on_key = !here.key.empty() && here.key.touches(at_);
    if (on_key) {
      replace(here.key);
      keys(owner(path_.size() - 2), here.colon, &here);
    } else if (here.is(Kind::object)) {
      replace({at_, at_});
      keys(owner(path_.size() - 1), false, nullptr);
    } else if (here.is(Kind::array)) {
      replace({at_, at_});
      value_of(path_.size() - 1);
    } else if (here.is(Kind::missing) && !here.colon) {
      return {};  // a colon comes next
    } else {
      replace(here.is(Kind::missing) ? Span{at_, at_} : here.span);
      value_of(path_.size() - 1);
    }
    return std::move(out_);
  }

 private:
  Owner owner(std::size_t level) const { return owner_of(a_, path_, level); }

  // A string that is not closed may have swallowed what stands after it: of that nothing goes.
  void replace(Span span) {
    const std::string& text = a_.text();
    std::size_t end = at_;
    const auto is_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_-./@$", c);
    };
    while (end < span.end && text[end] != '\0' && is_name(text[end])) ++end;
    if (end < span.end && text[end] == '"') ++end;
    out_.replaces = {span.begin, std::max(end, span.begin)};
  }

  void add(Candidate c) {
    if (seen_.insert(c.label).second) out_.candidates.push_back(std::move(c));
  }
  void add_text(const std::string& name, Candidate::Kind kind, const std::string& detail = "",
                const std::string& doc = "") {
    add({name, kind, detail, doc, Json(name).dump(), ""});
  }

  // ---- keys -------------------------------------------------------------------------------------

  void key(const std::string& name, const std::string& detail, const std::string& doc,
           const std::string& value, bool has_colon) {
    const std::string quoted = Json(name).dump();
    Candidate c{name, Candidate::Kind::key, detail, doc, quoted, ""};
    if (!has_colon) {
      c.text += ": ";
      c.snippet = escaped(quoted) + ": " + value;
    }
    add(std::move(c));
  }

  static std::string value_snippet(const ParamSpec& p) {
    if (!p.required) {
      const std::string text = p.fallback.dump();
      if (p.fallback.is_string())
        return "\"${1:" + escaped(text.substr(1, text.size() - 2)) + "}\"";
      return "${1:" + escaped(text) + "}";
    }
    if (!p.choices.empty() || p.type == "string")
      return "\"${1:" + (p.choices.empty() ? p.name : p.choices.front()) + "}\"";
    return p.type.starts_with("list") ? "[$1]" : "$1";
  }

  void keys(const Owner& o, bool has_colon, const Value* current) {
    std::set<std::string> there;
    if (o.object)
      for (const Value& m : o.object->members)
        if (&m != current) there.insert(m.name);
    const auto lacks = [&](const std::string& name) { return !there.count(name); };
    for (const Key& k : plain_keys(o)) {
      if (!lacks(k.name)) continue;
      const bool text = k.name == "type" || k.name == "in" || k.name == "part" ||
                        k.name == "name" || k.name == "desc" || k.name == "$schema" ||
                        k.name == "x-base";
      key(k.name, "", k.doc, text ? "\"$1\"" : "{ $1 }", has_colon);
    }
    if (o.is == Is::ports) ports(o, lacks, has_colon);
    if (o.is == Is::use)
      if (const Value* part = find_part(a_, std::string(o.object->text_of("part"))))
        if (const Value* params = part->find("params"))
          for (const Value& p : params->members)
            if (lacks(p.name)) key(p.name, "of the part", "", "$1", has_colon);
    std::vector<const Spec*> specs{o.spec};
    specs.insert(specs.end(), o.beside.begin(), o.beside.end());
    for (const Spec* spec : specs)
      if (spec && o.is != Is::ports)
        for (const ParamSpec& p : spec->params)
          if (lacks(p.name))
            key(p.name, type_of(p) + ", " + default_of(p), p.doc, value_snippet(p), has_colon);
  }

  template <class Lacks>
  void ports(const Owner& o, Lacks&& lacks, bool has_colon) {
    if (o.spec)
      for (const PortSpec& p : o.spec->ins)
        if (lacks(p.name)) key(p.name, "input", p.doc, "\"$1\"", has_colon);
    const Value* part = o.node ? find_part(a_, std::string(o.node->text_of("part"))) : nullptr;
    const Value* in = part ? part->find("in") : nullptr;
    if (!in) return;
    if (in->is(Kind::text) && lacks(in->text)) key(in->text, "input", "", "\"$1\"", has_colon);
    for (const Value& one : in->members)
      if (lacks(one.text)) key(one.text, "input", "", "\"$1\"", has_colon);
  }

  // ---- values -----------------------------------------------------------------------------------

  // Of path_[level], a value or the list that it would stand in.
  void value_of(std::size_t level) {
    // Elements are what their list's parameter says.
    while (level > 0 && path_[level]->key.empty()) --level;
    if (level == 0) return;
    const Value& member = *path_[level];
    const Owner o = owner(level - 1);
    const std::string& key = member.name;
    if (o.is == Is::names || o.is == Is::unknown || o.is == Is::graph) {
      variables(o.scope);
      return;
    }
    if (o.is == Is::layer && key == "in")
      layers(o);
    else if (o.is == Is::ports || key == "in" || key == "after" || key == "requires" ||
             key == "out")
      nodes(o, key);
    else if (key == "type")
      types(o);
    else if (key == "part")
      for (const auto& name : names_.known(Thing::part, "")) add_text(name, Candidate::Kind::type);
    else if (((o.is == Is::stop && key == "metric") || (o.is == Is::checkpoint && key == "best")))
      metrics();
    else
      parameter(o, key);
    if (o.is != Is::part) variables(o.scope);
  }

  void parameter(const Owner& o, const std::string& key) {
    const auto networks = o.spec ? o.spec->params_with_networks() : std::vector<std::string>();
    if (std::find(networks.begin(), networks.end(), key) != networks.end()) {
      for (const auto& name : names_.known(Thing::model, ""))
        add_text(name, Candidate::Kind::node, "network");
      return;
    }
    if (o.spec && key == o.spec->metric_param) return metrics();
    if (o.spec && names_a_field(*o.spec, key)) fields(o);
    const ParamSpec* p = param_of(o, key);
    if (!p) return;
    for (const auto& choice : p->choices)
      add_text(choice, Candidate::Kind::choice, p->fallback == choice ? "default" : "");
    if (p->type.starts_with("bool"))
      for (const char* word : {"true", "false"})
        add({word, Candidate::Kind::value, p->fallback.dump() == word ? "default" : "", p->doc,
             word, ""});
    else if (!p->required && p->choices.empty() && !p->fallback.is_null() &&
             p->fallback != Json(""))
      add({p->fallback.dump(), Candidate::Kind::value, "default", p->doc, p->fallback.dump(), ""});
  }

  static bool names_a_field(const Spec& spec, const std::string& key) {
    return std::any_of(spec.rules.begin(), spec.rules.end(), [&](const FieldRule& r) {
      return r.fields == "@" + key || r.like == "@" + key;
    });
  }

  // Those that arrive, with what is known of them; else all that the graph names.
  void fields(const Owner& o) {
    if (o.node)
      for (const auto& from : inputs_of(*o.node))
        if (const Leaving* l = leaving(a_, o.scope, from))
          for (const auto& [name, what] : l->fields)
            add_text(name, Candidate::Kind::variable, what);
    for (const auto& name : names_.known(Thing::field, ""))
      add_text(name, Candidate::Kind::variable, "field");
  }

  void variables(const std::string& scope) {
    for (const std::string& in : {scope, std::string()}) {
      for (const Occurrence& o : names_.all) {
        if (o.of.thing != Thing::variable || !o.defines || o.of.scope != in) continue;
        std::string value;
        const Source& source = a_.sources[o.source];
        if (const auto path = path_to(source.tree, o.span.begin); !path.empty())
          value = source.text.substr(path.back()->span.begin,
                                     path.back()->span.end - path.back()->span.begin);
        if (value.size() > 60) value = value.substr(0, 57) + "...";
        add_text("@" + o.of.name, Candidate::Kind::variable, value);
      }
      if (scope.empty()) break;
    }
  }

  void layers(const Owner& o) {
    add_text("image", Candidate::Kind::node, "the network's input");
    for (const Value& other : o.node->members)
      if (&other != o.object)
        add_text(other.name, Candidate::Kind::node, std::string(other.text_of("type")));
  }

  void types(const Owner& o) {
    if (o.types) {
      for (const Spec& spec : *o.types)
        add_text(spec.name, Candidate::Kind::type, "layer", spec.doc);
      return;
    }
    for (const auto& spec : a_.catalogue->all()) {
      if (spec->is_network != (o.is == Is::model)) continue;
      Candidate c{spec->name, Candidate::Kind::type,   spec->family,
                  spec->doc,  Json(spec->name).dump(), ""};
      if (o.object->members.size() <= 1 && o.is != Is::held) c.snippet = with_required(*spec);
      add(std::move(c));
    }
  }

  // A type and all that it must be given.
  std::string with_required(const Spec& spec) const {
    std::string out = Json(spec.name).dump();
    int stop = 1;
    const auto place = [&](const std::string& word) {
      return "${" + std::to_string(stop++) + ":" + escaped(word) + "}";
    };
    std::vector<const PortSpec*> needed;
    for (const auto& p : spec.ins)
      if (!p.optional) needed.push_back(&p);
    if (spec.is_network) needed.clear();
    if (needed.size() == 1) out += ", \"in\": \"" + place("node") + "\"";
    if (needed.size() > 1) {
      out += ", \"in\": { ";
      for (const auto* p : needed)
        out += (p == needed.front() ? "\"" : ", \"") + p->name + "\": \"" + place("node") + "\"";
      out += " \\}";
    }
    for (const auto& p : spec.params) {
      if (!p.required) continue;
      const bool text = !p.choices.empty() || p.type == "string";
      const std::string word = !p.choices.empty()           ? p.choices.front()
                               : text                       ? p.name
                               : p.type.starts_with("list") ? "[]"
                               : p.type == "bool"           ? "true"
                                                            : "1";
      out += ", \"" + p.name + "\": " + (text ? "\"" : "") + place(word) + (text ? "\"" : "");
    }
    return stop == 1 ? "" : out;
  }

  void nodes(const Owner& o, const std::string& key) {
    const bool is_input = key != "after" && key != "requires";
    for (const auto& name : names_.known(Thing::node, o.scope)) {
      if (o.node && o.node->name == name) continue;
      const Value* node = find_node(a_, o.scope, name);
      const Spec* spec = node ? a_.catalogue->find(node->text_of("type")) : nullptr;
      if (is_input && spec && spec->outs.empty()) continue;
      if (key == "after" && spec && spec->access != Access::update) continue;
      std::string detail = spec ? spec->name : node ? "part" : "input";
      if (const Leaving* l = leaving(a_, o.scope, name))
        for (const auto& line : l->changed) detail += "; " + line;
      add_text(name, Candidate::Kind::node, detail);
      if (is_input && spec && spec->outs.size() > 1)
        for (const PortSpec& p : spec->outs)
          add_text(name + "." + p.name, Candidate::Kind::node, p.doc);
    }
  }

  void metrics() {
    for (const auto& name : names_.known(Thing::node, "")) {
      const Value* node = find_node(a_, "", name);
      const Spec* spec = node ? a_.catalogue->find(node->text_of("type")) : nullptr;
      if (!spec) continue;
      for (const auto& metric : spec->metrics)
        if (!metric.ends_with('*'))
          add_text(name + "." + metric, Candidate::Kind::node, first_sentence(spec->doc));
    }
  }

  const Analysis& a_;
  const std::size_t at_;
  const std::vector<const Value*> path_;
  const Names names_;
  Completion out_;
  std::set<std::string> seen_;
};

}  // namespace

Completion complete(const Analysis& a, std::size_t at) { return Completer(a, at).run(); }

}  // namespace sluice::assist
