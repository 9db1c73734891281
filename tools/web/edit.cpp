// Changes that a form, a palette or a mouse asks for, made in the author's text.
#include <algorithm>

#include "engine/graph/graph_text.h"
#include "tools/web/look.h"
#include "tools/web/places.h"

namespace sluice::web {
namespace {

using Pointer = nlohmann::json_pointer<std::string>;

DocumentPtr parsed(const std::string& file, const std::string& text) {
  Diagnostics found;
  DocumentPtr document = parse_document(file, text, found);
  if (!document || !found.ok())
    throw Refusal{422, "the text is no JSON at this moment; mend it first"};
  return document;
}

std::string text_in(const Json& edit, const char* key) {
  const auto it = edit.find(key);
  if (it == edit.end() || !it->is_string())
    throw Refusal{400, std::string("an edit lacks \"") + key + "\""};
  return it->get<std::string>();
}

std::string pointer_in(const Json& edit, const char* key = "pointer") {
  std::string pointer = text_in(edit, key);
  try {
    Pointer{pointer};
  } catch (const Json::exception&) {
    throw Refusal{400, "\"" + pointer + "\" is no JSON pointer"};
  }
  return pointer;
}

const Json* find(const Document& document, const std::string& pointer) {
  const Pointer p{pointer};
  return document.root.contains(p) ? &document.root.at(p) : nullptr;
}

void require(const Document& document, const std::string& pointer) {
  if (!find(document, pointer)) throw Refusal{422, pointer + " is not in this file"};
}

std::string parent_of(const std::string& pointer) {
  return Pointer{pointer}.parent_pointer().to_string();
}

std::string child(const std::string& pointer, const std::string& key) {
  return Place{nullptr, pointer}.child(key).pointer;
}

// "crop", "crop2", ...: the first that no node there has.
std::string free_name(const Json& nodes, const std::string& type) {
  std::string base = type.starts_with("rand_") ? type.substr(5) : type;
  for (int n = 1;; ++n) {
    const std::string name = n == 1 ? base : base + std::to_string(n);
    if (!nodes.contains(name)) return name;
  }
}

// What a node reads, at `in`: `from` replaced, name by name, so that comments between them stay;
// "from.port" too, since its fields come from there.
void rewire(GraphText& text, const Json& in, const std::string& at, const std::string& from,
            const std::string& to) {
  if (in.is_structured())
    for (const auto& [key, one] : in.items()) rewire(text, one, child(at, key), from, to);
  if (!in.is_string()) return;
  const std::string& name = in.get_ref<const std::string&>();
  if (name == from || name.starts_with(from + ".")) text.set(at, to);
}

// A node of a type between another one and those that read it: {"type", "after": its pointer,
// "before": the pointer of one reader, else all}.
std::string insert(const Catalogue& catalogue, const DocumentPtr& document, const Json& edit,
                   std::string& pointer) {
  const std::string type = text_in(edit, "type");
  const Spec* spec = catalogue.find(type);
  if (!spec || spec->is_network) throw Refusal{422, "no node type is called " + type};
  const std::string after = edit.contains("after") ? pointer_in(edit, "after") : "";
  const std::string nodes_at = after.empty() ? "/nodes" : parent_of(after);
  const Json* nodes = find(*document, nodes_at);
  GraphText text(document);
  const std::string name = free_name(nodes ? *nodes : Json::object(), type);
  pointer = child(nodes_at, name);
  Json value = {{"type", type}};
  if (after.empty() || spec->arity == Arity::source) {
    text.set(pointer, value);
    return text.text();
  }
  require(*document, after);
  const std::string from = Pointer{after}.back();
  value["in"] = from;
  text.add_behind(after, name, value);
  const std::string before = edit.contains("before") ? pointer_in(edit, "before") : "";
  for (const auto& [key, node] : nodes->items()) {
    const std::string at = child(nodes_at, key);
    if (!node.is_object() || !node.contains("in") || spec->outs.empty()) continue;
    if (before.empty() || before == at) rewire(text, node["in"], child(at, "in"), from, name);
  }
  // Who reads a part from outside reads its "out".
  const std::string part = parent_of(nodes_at);
  const Json* out = part.empty() ? nullptr : find(*document, child(part, "out"));
  if (out && !spec->outs.empty() && (before.empty() || parent_of(before) != nodes_at))
    rewire(text, *out, child(part, "out"), from, name);
  return text.text();
}

// Of a node's type, or of the part that it stands for; "" where neither is known.
std::string first_port(const Catalogue& catalogue, const Document& document,
                       const std::string& node) {
  const auto name = [&](const char* key) {
    const Json* value = find(document, child(node, key));
    return value && value->is_string() ? value->get<std::string>() : std::string();
  };
  if (const Spec* spec = catalogue.find(name("type")))
    return spec->ins.empty() ? "" : spec->ins.front().name;
  const Json* ports = find(document, child(child("/parts", name("part")), "in"));
  if (ports && ports->is_array() && !ports->empty()) ports = &ports->front();
  return ports && ports->is_string() ? ports->get<std::string>() : "";
}

// Where a node's "in" names its node as a string, that is the first port's. With another port
// beside it, "in" becomes an object of both.
void connect(const Catalogue& catalogue, GraphText& text, const Document& document,
             const std::string& node, const std::string& port, const std::string& from) {
  const std::string at = child(node, "in");
  const Json* in = find(document, at);
  if (port.empty() || !in || !in->is_string())
    return text.set(port.empty() ? at : child(at, port), from);
  const std::string first = first_port(catalogue, document, node);
  if (first.empty())
    throw Refusal{422, at + " is the name of one node, and which port that is is not known here"};
  text.set(at, first == port ? Json(from) : Json{{first, *in}, {port, from}});
}

}  // namespace

Json Look::edit(const std::string& file, std::string text, const Json& edits) const {
  if (!edits.is_array() || edits.empty() || edits.size() > 1000)
    throw Refusal{400, "expected a list of edits"};
  std::string pointer;
  for (const Json& e : edits) {
    if (!e.is_object()) throw Refusal{400, "an edit is an object"};
    const DocumentPtr document = parsed(file, text);
    const std::string op = text_in(e, "op");
    GraphText changed(document);
    if (op == "insert") {
      text = insert(catalogue_, document, e, pointer);
      continue;
    }
    pointer = pointer_in(e);
    if (op == "set" && e.contains("value")) {
      if (pointer.empty()) throw Refusal{422, "the whole text is not one value"};
      changed.set(pointer, e["value"]);
    } else if (op == "remove") {
      require(*document, pointer);
      if (pointer.empty() || find(*document, parent_of(pointer))->is_array())
        throw Refusal{422, "members of objects can be removed"};
      changed.remove(pointer);
    } else if (op == "add" && e.contains("value")) {
      require(*document, pointer);
      const std::string key = text_in(e, "key");
      changed.add_behind(pointer, key, e["value"]);
      pointer = child(parent_of(pointer), key);
    } else if (op == "connect") {
      require(*document, pointer);
      const std::string from = text_in(e, "from");
      const std::string port = e.contains("port") ? text_in(e, "port") : "";
      connect(catalogue_, changed, *document, pointer, port, from);
    } else {
      throw Refusal{400, "no edit is called \"" + op + "\", or it lacks its value"};
    }
    text = changed.text();
  }
  parsed(file, text);
  return {{"text", text}, {"pointer", pointer}};
}

}  // namespace sluice::web
