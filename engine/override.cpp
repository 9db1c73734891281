#include "engine/override.h"

#include <charconv>

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

// Members that are names given in the file: only those that exist can be set.
bool holds_names(const std::vector<std::string>& keys, std::size_t depth) {
  if (depth == 1)
    return keys[0] == "vars" || keys[0] == "nodes" || keys[0] == "models" || keys[0] == "parts";
  return depth == 3 && keys[0] == "parts" && (keys[2] == "nodes" || keys[2] == "params");
}

bool is_valid_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

class Applier {
 public:
  Applier(std::shared_ptr<Document> document, InnerOverrides& inner, Diagnostics& diagnostics)
      : document_(std::move(document)), inner_(inner), diagnostics_(diagnostics) {}

  void apply(const Override& o) {
    text_ = "--set " + o.path + "=" + o.value;
    path_ = o.path;
    if (!is_valid_utf8(text_)) {
      text_ = "--set";
      return error("SL0502", "--set with invalid UTF-8");
    }
    const auto keys = split(o.path);
    for (const auto& key : keys)
      if (key.empty()) return error("SL0502", "the path \"" + o.path + "\" has an empty name");
    const Json value = parse(o.value);
    if (is_inner(keys)) {
      auto& added = inner_.emplace(keys[1], InnerOverride{})->second;
      added.keys.assign(keys.begin() + 2, keys.end());
      added.value = value;
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

  // JSON, or the text itself where it is none. JSON that the file would not be allowed to hold
  // (duplicate keys, too large numbers) is refused here too.
  Json parse(const std::string& text) {
    Diagnostics found;
    const DocumentPtr parsed = parse_document("--set", text, found);
    if (!parsed) return text;
    for (const auto& d : found.all()) error(d.code, d.message);
    return parsed->root;
  }

  bool is_inner(const std::vector<std::string>& keys) const {
    if (keys.size() < 3 || keys[0] != "nodes" || keys[1].find('/') == std::string::npos)
      return false;
    const Json& root = document_->root;
    return !(root.contains("nodes") && root["nodes"].is_object() &&
             root["nodes"].contains(keys[1]));
  }

  // Goes down to the parent of the last key; every name on the way must exist.
  void walk(const std::vector<std::string>& keys, const Json& value) {
    Json* at = &document_->root;
    Place place{document_, ""};
    for (std::size_t depth = 0; depth < keys.size(); ++depth) {
      const std::string& key = keys[depth];
      const bool is_last = depth + 1 == keys.size();
      const bool may_be_new = (is_last && !holds_names(keys, depth) && depth > 0) ||
                              (keys[0] == "run" && depth < 2) || (is_last && is_text(key, depth));
      if (at->is_array() ? index_in(*at, key) < 0
                         : !at->is_object() || (!at->contains(key) && !may_be_new))
        return no_such(keys, depth, *at);
      place = place.child(key);
      const bool is_new = at->is_object() && !at->contains(key);
      at = at->is_array() ? &(*at)[static_cast<std::size_t>(index_in(*at, key))] : &(*at)[key];
      if (is_last) *at = value;
      if (is_last || is_new) document_->replaced[place.pointer] = text_;
      if (is_new && !is_last) *at = Json::object();
    }
  }

  static bool is_text(const std::string& key, std::size_t depth) {
    return depth == 0 && (key == "name" || key == "desc");
  }

  void no_such(const std::vector<std::string>& keys, std::size_t depth, const Json& parent) {
    const std::string inside = depth ? join(keys, depth) : "the graph";
    if (parent.is_array())
      return error("SL0501", inside + " has no element " + keys[depth] + "; it has " +
                                 std::to_string(parent.size()));
    if (!parent.is_object()) {
      const bool is_reference =
          parent.is_string() && parent.get_ref<const std::string&>().starts_with("@");
      return error(
          "SL0501", inside + " is " + describe_json(parent) + " and has no \"" + keys[depth] + "\"",
          is_reference ? "set vars." + parent.get<std::string>().substr(1) + " instead" : "");
    }
    auto known = names(parent);
    if (depth == 0) known = {"vars", "run", "models", "parts", "nodes", "name", "desc"};
    std::string hint;
    if (const std::string best = nearest(keys[depth], known); !best.empty()) {
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
};

}  // namespace

std::string set_member(Json& object, const std::vector<std::string>& keys, const Json& value) {
  Json* at = &object;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool is_last = i + 1 == keys.size();
    if (at->is_array() && index_in(*at, keys[i]) >= 0)
      at = &(*at)[static_cast<std::size_t>(index_in(*at, keys[i]))];
    else if (at->is_object() && (is_last || at->contains(keys[i])))
      at = &(*at)[keys[i]];
    else
      return "no such path: there is no \"" + keys[i] + "\" to set";
  }
  *at = value;
  return "";
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
