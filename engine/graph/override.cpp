#include "engine/graph/override.h"

#include <charconv>

#include "engine/base/utf8.h"
#include "engine/graph/merge.h"

namespace sluice {
namespace {

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> keys(1);
  for (char c : path) {
    if (c == '.')
      keys.emplace_back();
    else
      keys.back() += c;
  }
  return keys;
}

std::string join(const std::vector<std::string>& keys, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (i ? "." : "") + keys[i];
  return out;
}

std::vector<std::string> names(const Json& object) {
  std::vector<std::string> out;
  if (object.is_object())
    for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

// The index that `key` is in `list`, or -1.
int index_in(const Json& list, const std::string& key) {
  std::size_t i = 0;
  const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), i);
  const bool whole = problem == std::errc() && end == key.data() + key.size();
  return whole && i < list.size() ? static_cast<int>(i) : -1;
}

bool has(const Json& parent, const std::string& key) {
  return parent.is_array() ? index_in(parent, key) >= 0
                           : parent.is_object() && parent.contains(key);
}

// Makes it where an object, or the end of a list, has none.
Json& member(Json& parent, const std::string& key) {
  if (!parent.is_array()) return parent[key];
  const int i = index_in(parent, key);
  return parent[i < 0 ? parent.size() : static_cast<std::size_t>(i)];
}

void remove(Json& parent, const std::string& key) {
  if (parent.is_array())
    parent.erase(static_cast<std::size_t>(index_in(parent, key)));
  else
    parent.erase(key);
}

std::string text_of(const Override& o) {
  if (o.act == Override::Act::remove) return "~" + o.path;
  return (o.act == Override::Act::add ? "+" : "") + o.path + "=" + o.value;
}

// Members that are names given in the file: only those that exist can be set.
bool holds_names(const std::vector<std::string>& keys, std::size_t depth) {
  if (depth == 1)
    return keys[0] == "vars" || keys[0] == "nodes" || keys[0] == "models" || keys[0] == "parts";
  return depth == 3 && keys[0] == "parts" && (keys[2] == "nodes" || keys[2] == "params");
}

class Applier {
 public:
  Applier(std::shared_ptr<Document> document, InnerOverrides& inner, Diagnostics& diagnostics)
      : document_(std::move(document)), inner_(inner), diagnostics_(diagnostics) {}

  void apply(const Override& o) {
    text_ = "--set " + text_of(o);
    path_ = o.path;
    act_ = o.act;
    if (!is_utf8(text_)) {
      text_ = "--set";
      path_.clear();
      return error("SL0502", "--set with invalid UTF-8");
    }
    const auto keys = split(o.path);
    for (const auto& key : keys)
      if (key.empty()) return error("SL0502", "the path \"" + o.path + "\" has an empty name");
    const auto before = diagnostics_.errors();
    const Json value = act_ == Override::Act::remove ? Json() : parse(o.value);
    if (diagnostics_.errors() != before) return;
    if (is_inner(keys)) {
      auto& added = inner_.emplace(keys[1], InnerOverride{})->second;
      added.keys.assign(keys.begin() + 2, keys.end());
      added.value = value;
      added.act = act_;
      added.place = here();
    } else {
      walk(keys, value);
    }
  }

 private:
  // A place that has no line and reads "--set path=value".
  Place here() const {
    auto document = std::make_shared<Document>();
    document->file = text_;
    return {document, ""};
  }

  void error(std::string code, std::string message, std::string hint = "") {
    diagnostics_.error(std::move(code), std::move(message), here(), path_, std::move(hint));
  }

  Json parse(const std::string& text) {
    Diagnostics found;
    const Json value = override_value(text, found);
    for (const auto& d : found.all()) error(d.code, d.message);
    return value;
  }

  // A node that the file does not name: inside a part, or nowhere, which expansion shows.
  bool is_inner(const std::vector<std::string>& keys) const {
    if (keys.size() < 3 || keys[0] != "nodes") return false;
    const Json& root = document_->root;
    return !(root.contains("nodes") && root["nodes"].is_object() &&
             root["nodes"].contains(keys[1]));
  }

  // Goes down to the parent of the last key; every name on the way must exist.
  void walk(const std::vector<std::string>& keys, const Json& value) {
    Json* at = &document_->root;
    Place place{document_, ""};
    for (std::size_t depth = 0; depth < keys.size(); ++depth) {
      const bool is_last = depth + 1 == keys.size();
      const bool is_there = has(*at, keys[depth]);
      if (is_last && act_ != Override::Act::set && (is_there || act_ == Override::Act::remove))
        return is_there ? last(*at, keys, place) : no_such(keys, depth, *at);
      if (!is_there && !may_be_new(keys, depth, *at)) return no_such(keys, depth, *at);
      place = place.child(keys[depth]);
      at = &member(*at, keys[depth]);
      if (is_last) *at = value;
      if (is_last || !is_there) set_origin(*document_, place.pointer, here());
      if (!is_there && !is_last) *at = Json::object();
    }
  }

  // The last name exists, and is to be added or removed.
  void last(Json& parent, const std::vector<std::string>& keys, const Place& place) {
    if (act_ == Override::Act::add)
      return error("SL0503", path_ + " is there already",
                   "--set " + path_ + "=... without the + changes it");
    remove(parent, keys.back());
    if (parent.is_array())  // later elements have other pointers now
      set_origin(*document_, place.pointer, here());
    else
      document_->origins[place.pointer] = here();
  }

  bool may_be_new(const std::vector<std::string>& keys, std::size_t depth,
                  const Json& parent) const {
    const bool is_last = depth + 1 == keys.size();
    if (is_last && act_ == Override::Act::add)
      return parent.is_object() ||
             (parent.is_array() && keys[depth] == std::to_string(parent.size()));
    if (!parent.is_object()) return false;
    if (act_ == Override::Act::add && depth == 0)  // +vars.x=1 in a file without vars
      return keys[0] == "vars" || keys[0] == "models" || keys[0] == "parts" || keys[0] == "run";
    return (is_last && !holds_names(keys, depth) && depth > 0) || (keys[0] == "run" && depth < 2) ||
           (is_last && is_text(keys[depth], depth));
  }

  static bool is_text(const std::string& key, std::size_t depth) {
    return depth == 0 && (key == "name" || key == "desc");
  }

  std::string without_variables(const Json& graph) const {
    std::string has;
    for (const auto& name : names(graph)) has += (has.empty() ? "it has " : ", ") + name;
    return (has.empty() ? "" : has + ": ") +
           "a run's graph has values in the places of variables, set those" +
           (act_ == Override::Act::set ? "; --set +" + path_ + "=... adds a variable" : "");
  }

  void no_such(const std::vector<std::string>& keys, std::size_t depth, const Json& parent) {
    const std::string inside = depth ? join(keys, depth) : "the graph";
    if (parent.is_array())
      return error("SL0512",
                   inside + " has no element " + keys[depth] + ": it has " +
                       std::to_string(parent.size()) + ", counted from 0",
                   parent.empty() ? "" : "the last one is " + std::to_string(parent.size() - 1));
    if (parent.is_string() && parent.get_ref<const std::string&>().starts_with("@")) {
      auto rest = std::vector<std::string>(keys.begin() + static_cast<long>(depth), keys.end());
      rest.insert(rest.begin(), {"vars", parent.get<std::string>().substr(1)});
      return error("SL0511", inside + " stands for the variable " + rest[1],
                   "set " + join(rest, rest.size()) + " instead");
    }
    if (!parent.is_object())
      return error("SL0501",
                   inside + " is " + describe_json(parent) + " and has no \"" + keys[depth] + "\"");
    auto known = names(parent);
    if (depth == 0) known = {"vars", "run", "models", "parts", "nodes", "name", "desc"};
    std::string hint;
    if (depth == 0 && keys[0] == "vars") {
      hint = without_variables(parent);
    } else if (const std::string best = nearest(keys[depth], known);
               !best.empty() && best != keys[depth]) {
      auto meant = keys;
      meant[depth] = best;
      hint = "did you mean " + join(meant, meant.size()) + "?";
    }
    error("SL0501", "no such path: " + inside + " has no \"" + keys[depth] + "\"", hint);
  }

  std::shared_ptr<Document> document_;
  InnerOverrides& inner_;
  Diagnostics& diagnostics_;
  std::string text_, path_;
  Override::Act act_ = Override::Act::set;
};

}  // namespace

Json override_value(const std::string& text, Diagnostics& found) {
  Diagnostics refused;
  const DocumentPtr parsed = parse_document("--set", text, refused);
  if (!parsed) return text;
  for (const auto& d : refused.all()) found.add(d);
  return parsed->root;
}

std::string apply_inner(Json& object, const InnerOverride& override) {
  Json* at = &object;
  const auto none = [](const std::string& key) {
    return "no such path: there is no \"" + key + "\" to ";
  };
  for (std::size_t i = 0; i + 1 < override.keys.size(); ++i) {
    if (!has(*at, override.keys[i])) return none(override.keys[i]) + "set";
    at = &member(*at, override.keys[i]);
  }
  const std::string& key = override.keys.back();
  if (override.act == Override::Act::remove) {
    if (!has(*at, key)) return none(key) + "remove";
    remove(*at, key);
    return "";
  }
  if (!at->is_object() && !has(*at, key)) return none(key) + "set";
  member(*at, key) = override.value;
  return "";
}

std::vector<Override> parse_overrides(const std::vector<std::string>& texts,
                                      Diagnostics& diagnostics) {
  std::vector<Override> overrides;
  for (const std::string& text : texts) {
    Override o;
    if (!is_utf8(text)) {
      diagnostics.error("SL0502", "--set with invalid UTF-8");
      continue;
    }
    if (text.starts_with('~')) {
      overrides.push_back({text.substr(1), "", Override::Act::remove});
      continue;
    }
    if (text.starts_with('+')) o.act = Override::Act::add;
    const auto begin = o.act == Override::Act::add ? 1u : 0u;
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals <= begin) {
      diagnostics.error("SL0502", "--set " + text + ": expected path=value", {}, "",
                        "or +path=value to add, ~path to remove");
      continue;
    }
    o.path = text.substr(begin, equals - begin);
    o.value = text.substr(equals + 1);
    overrides.push_back(std::move(o));
  }
  return overrides;
}

DocumentPtr apply_overrides(DocumentPtr document, const std::vector<Override>& overrides,
                            InnerOverrides& inner, Diagnostics& diagnostics) {
  if (overrides.empty()) return document;
  auto changed = std::make_shared<Document>(*document);
  Applier applier(changed, inner, diagnostics);
  for (const auto& o : overrides) applier.apply(o);
  return changed;
}

}  // namespace sluice
