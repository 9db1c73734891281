// The configurations of a MONAI bundle as one document whose every value knows where it stands.
//
// Invariant: nothing of a bundle is executed. Keys that occur twice, aliases that would make an
// endless document, and files that are neither JSON nor YAML are errors with file, line and column.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json.h"

namespace sluice::bundle {

struct At {
  std::string file;
  int line = 0, column = 0;
  std::string str() const;  // "configs/train.json:57:21"
};

struct Item;
using ItemPtr = std::shared_ptr<Item>;

// A value of a configuration. Its id says where it is asked for: "train#dataset".
struct Item {
  enum class Kind : std::uint8_t { scalar, list, dict } kind = Kind::scalar;
  Json value;                                            // a scalar's
  std::vector<ItemPtr> elements;                         // a list's
  std::vector<std::pair<std::string, ItemPtr>> members;  // a dictionary's
  At at, key_at;
  std::string id;

  ItemPtr find(std::string_view key) const;  // null where there is none
  bool is_text() const { return kind == Kind::scalar && value.is_string(); }
  std::string text() const { return is_text() ? value.get<std::string>() : ""; }
  // The class of a component: what stands under _target_; "" where it is none.
  std::string target() const;
};

// "UNet" of "monai.networks.nets.UNet".
inline std::string last_name(const std::string& dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

// A place in a bundle is wrong: the message names it.
struct Refused : std::runtime_error {
  At at;
  Refused(At where, const std::string& what)
      : std::runtime_error(where.str() + ": " + what), at(std::move(where)) {}
};

// JSON or YAML, by the name's end. `shown` stands in messages.
ItemPtr read_config(const std::filesystem::path& file, const std::string& shown);
// A value of the command line, as MONAI reads it: JSON, else a literal of Python's (False, None,
// [a, b]), else text.
ItemPtr config_of_text(const std::string& text, const std::string& shown);

// The files left to right, as MONAI merges them: a key replaces; "+key" merges dictionaries and
// appends lists; "a#b" and "a::b" set inside.
class Config {
 public:
  explicit Config(std::filesystem::path folder);
  void merge(const ItemPtr& more);
  void set(const std::string& id, const ItemPtr& value);
  // Puts what "%id" and "%file::id" name in their place, and gives every item its id.
  void finish();

  const ItemPtr& root() const { return root_; }
  const std::filesystem::path& folder() const { return folder_; }
  // "a#b#0" or "a::b::0"; null where there is none.
  ItemPtr find(const std::string& id) const;

 private:
  std::filesystem::path folder_;
  ItemPtr root_;
  std::vector<std::pair<std::string, ItemPtr>> others_;  // files that macros name
  void expand(ItemPtr& item, const std::string& id, int depth);
  ItemPtr macro(const Item& item, const std::string& id);
};

// "@##x" seen from "a#b#c" is "@a#x"; "::" becomes "#".
std::string absolute_id(const std::string& reference, const std::string& from, const At& at);

}  // namespace sluice::bundle
