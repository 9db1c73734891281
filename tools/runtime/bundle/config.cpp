#include "tools/runtime/bundle/config.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "engine/base/diagnostic.h"
#include "engine/base/document.h"
#include "tools/runtime/bundle/expression.h"

namespace sluice::bundle {
namespace {

constexpr int deepest = 64;

// What `document` holds at the pointer's place.
ItemPtr item_of(const Json& json, const Place& place) {
  auto item = std::make_shared<Item>();
  const Mark mark = place.mark();
  item->at = {place.document->file, mark.line, mark.column};
  if (json.is_object()) {
    item->kind = Item::Kind::dict;
    for (const auto& [key, value] : json.items()) {
      auto member = item_of(value, place.child(key));
      const Mark key_mark = place.child(key).key().mark();
      member->key_at = {place.document->file, key_mark.line, key_mark.column};
      item->members.emplace_back(key, std::move(member));
    }
  } else if (json.is_array()) {
    item->kind = Item::Kind::list;
    for (std::size_t i = 0; i < json.size(); ++i)
      item->elements.push_back(item_of(json[i], place.child(i)));
  } else {
    item->value = json;
  }
  return item;
}

ItemPtr copy_of(const Item& item) {
  auto copy = std::make_shared<Item>(item);
  for (auto& element : copy->elements) element = copy_of(*element);
  for (auto& [key, member] : copy->members) member = copy_of(*member);
  return copy;
}

std::vector<std::string> parts_of(const std::string& id) {
  std::vector<std::string> parts;
  if (id.empty()) return parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = id.find('#', begin)) != std::string::npos; begin = end + 1)
    parts.push_back(id.substr(begin, end - begin));
  parts.push_back(id.substr(begin));
  return parts;
}

std::string normal_id(std::string id) {
  for (std::size_t at; (at = id.find("::")) != std::string::npos;) id.replace(at, 2, "#");
  return id;
}

// The slot of a part of an id; null where there is none.
ItemPtr* slot(Item& item, const std::string& part) {
  if (item.kind == Item::Kind::dict)
    for (auto& [key, member] : item.members)
      if (key == part) return &member;
  if (item.kind == Item::Kind::list && !part.empty() &&
      std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); })) {
    const std::size_t i = std::stoul(part);
    if (i < item.elements.size()) return &item.elements[i];
  }
  return nullptr;
}

ItemPtr find_in(const ItemPtr& root, const std::string& id) {
  ItemPtr item = root;
  for (const auto& part : parts_of(normal_id(id))) {
    ItemPtr* next = slot(*item, part);
    if (!next) return nullptr;
    item = *next;
  }
  return item;
}

}  // namespace

ItemPtr read_yaml(const std::string& text, const std::string& shown);  // config_yaml.cpp

std::string At::str() const {
  if (line == 0) return file;
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

ItemPtr Item::find(std::string_view key) const {
  for (const auto& [name, member] : members)
    if (name == key) return member;
  return nullptr;
}

std::string Item::target() const {
  const ItemPtr target = kind == Kind::dict ? find("_target_") : nullptr;
  return target ? target->text() : "";
}

ItemPtr config_of_text(const std::string& text, const std::string& shown) {
  const auto literal = Json::accept(text) ? std::nullopt : python_literal(text);
  Diagnostics ignored;
  if (const auto document = parse_document(shown, literal ? literal->dump() : text, ignored);
      document && ignored.ok())
    return item_of(document->root, Place{document, ""});
  auto item = std::make_shared<Item>();
  item->value = text;
  item->at.file = shown;
  return item;
}

ItemPtr read_config(const std::filesystem::path& file, const std::string& shown) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Refused({shown}, "no such file");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  ItemPtr root;
  const auto ending = file.extension();
  if (ending == ".json") {
    Diagnostics diagnostics;
    const auto document = parse_document(shown, std::move(text), diagnostics);
    if (!document || !diagnostics.ok()) {
      const auto& first = diagnostics.all().front();
      const Mark mark = first.place.mark();
      throw Refused({shown, mark.line, mark.column}, first.message);
    }
    root = item_of(document->root, Place{document, ""});
  } else if (ending == ".yaml" || ending == ".yml") {
    root = read_yaml(text, shown);
  } else {
    throw Refused({shown}, "a configuration ends with .json, .yaml or .yml");
  }
  if (root->kind != Item::Kind::dict) throw Refused(root->at, "a configuration is a dictionary");
  return root;
}

Config::Config(std::filesystem::path folder)
    : folder_(std::move(folder)), root_(std::make_shared<Item>()) {
  root_->kind = Item::Kind::dict;
}

void Config::set(const std::string& key, const ItemPtr& value) {
  const bool adds = key.starts_with('+');
  const auto parts = parts_of(normal_id(key.substr(adds ? 1 : 0)));
  Item* inside = root_.get();
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    ItemPtr* next = slot(*inside, parts[i]);
    if (!next || (*next)->kind == Item::Kind::scalar)
      throw Refused(value->key_at, "\"" + key + "\": there is no \"" + parts[i] +
                                       "\" to set in; a configuration that has it is named before "
                                       "this one, with --config for each");
    inside = next->get();
  }
  ItemPtr* old = slot(*inside, parts.back());
  if (!old) {
    if (inside->kind != Item::Kind::dict)
      throw Refused(value->key_at, "\"" + key + "\": a list has no such element");
    inside->members.emplace_back(parts.back(), value);
    return;
  }
  if (!adds) {
    *old = value;
    return;
  }
  Item& to = **old;
  if (to.kind != value->kind || to.kind == Item::Kind::scalar)
    throw Refused(value->key_at, "\"" + key + "\" merges dictionaries, or lists");
  if (to.kind == Item::Kind::list)
    to.elements.insert(to.elements.end(), value->elements.begin(), value->elements.end());
  for (const auto& [name, member] : value->members) {
    if (ItemPtr* there = slot(to, name))
      *there = member;
    else
      to.members.emplace_back(name, member);
  }
}

void Config::merge(const ItemPtr& more) {
  root_->at = more->at;
  for (const auto& [key, value] : more->members) set(key, value);
}

ItemPtr Config::find(const std::string& id) const { return find_in(root_, id); }

ItemPtr Config::macro(const Item& item, const std::string& id) {
  std::string path = item.text().substr(1);
  ItemPtr from = root_;
  for (const char* ending : {".json", ".yaml", ".yml"}) {
    const auto at = path.find(std::string(ending) + "::");
    const bool whole = path.ends_with(ending);
    if (at == std::string::npos && !whole) continue;
    const std::string file = whole ? path : path.substr(0, at + std::strlen(ending));
    path = whole ? "" : path.substr(file.size() + 2);
    auto known = std::find_if(others_.begin(), others_.end(),
                              [&](const auto& other) { return other.first == file; });
    if (known == others_.end()) {
      const auto place = folder_ / (file.starts_with("/") ? file : "configs/" + file);
      others_.emplace_back(
          file, read_config(std::filesystem::exists(place) ? place : folder_ / file, file));
      known = std::prev(others_.end());
    }
    from = known->second;
    break;
  }
  const ItemPtr found = find_in(from, absolute_id(path, id, item.at));
  if (!found) throw Refused(item.at, "\"" + item.text() + "\" names nothing");
  return copy_of(*found);
}

void Config::expand(ItemPtr& item, const std::string& id, int depth) {
  if (depth > deepest) throw Refused(item->at, "nested deeper than 64, or a macro within itself");
  item->id = id;
  if (item->is_text() && item->text().starts_with('%')) {
    const At at = item->at, key_at = item->key_at;
    item = macro(*item, id);
    item->key_at = key_at;
    // A macro's copy stands where it was written; the place of its use is named by the id.
    expand(item, id, depth + 1);
    return;
  }
  const std::string inside = id.empty() ? "" : id + "#";
  for (std::size_t i = 0; i < item->elements.size(); ++i)
    expand(item->elements[i], inside + std::to_string(i), depth + 1);
  for (auto& [key, member] : item->members) expand(member, inside + key, depth + 1);
}

void Config::finish() { expand(root_, "", 0); }

std::string absolute_id(const std::string& reference, const std::string& from, const At& at) {
  const std::string id = normal_id(reference);
  std::size_t levels = 0;
  while (levels < id.size() && id[levels] == '#') ++levels;
  if (levels == 0) return id;
  auto parts = parts_of(from);
  if (levels > parts.size()) throw Refused(at, "\"" + reference + "\" leads out of the file");
  std::string out;
  for (std::size_t i = 0; i + levels < parts.size(); ++i) out += parts[i] + "#";
  return out + id.substr(levels);
}

}  // namespace sluice::bundle
