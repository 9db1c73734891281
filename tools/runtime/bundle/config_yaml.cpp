// YAML as PyYAML's safe loader reads it: version 1.1's plain scalars, anchors, no tags of one's
// own.
#include <yaml-cpp/yaml.h>

#include <regex>

#include "tools/runtime/bundle/config.h"

namespace sluice::bundle {
namespace {

bool fits(const std::string& text, const std::regex& pattern) {
  return std::regex_match(text, pattern);
}

std::string without(std::string text, char c) {
  std::erase(text, c);
  return text;
}

Json plain_scalar(const std::string& text) {
  static const std::regex yes("yes|Yes|YES|true|True|TRUE|on|On|ON"),
      no("no|No|NO|false|False|FALSE|off|Off|OFF"), null("~|null|Null|NULL|"),
      whole("[-+]?(0|[1-9][0-9_]*)"), hex("[-+]?0x[0-9a-fA-F_]+"),
      real("[-+]?([0-9][0-9_]*\\.[0-9_]*([eE][-+][0-9]+)?|\\.[0-9][0-9_]*([eE][-+][0-9]+)?)");
  if (fits(text, null)) return nullptr;
  if (fits(text, yes)) return true;
  if (fits(text, no)) return false;
  try {
    if (fits(text, whole)) return std::stoll(without(text, '_'));
    if (fits(text, hex)) return std::stoll(without(text, '_'), nullptr, 16);
    if (fits(text, real)) return std::stod(without(text, '_'));
  } catch (const std::out_of_range&) {
  }
  return text;  // also 1e-4, which YAML 1.1 takes for text
}

struct Reader {
  std::string shown;
  std::size_t left = 1000000;  // values, so that aliases of aliases end

  At at(const YAML::Node& node) const {
    return {shown, node.Mark().line + 1, node.Mark().column + 1};
  }

  ItemPtr read(const YAML::Node& node, int depth) {
    if (depth > 64) throw Refused(at(node), "nested deeper than 64");
    if (left-- == 0) throw Refused(at(node), "more than a million values");
    const std::string& tag = node.Tag();
    const bool core = tag.starts_with("tag:yaml.org,2002:") && tag.find('/') == std::string::npos;
    if (!tag.empty() && tag != "?" && tag != "!" && !core)
      throw Refused(at(node), "the tag " + tag + " makes an object of Python; it is not read");
    auto item = std::make_shared<Item>();
    item->at = at(node);
    if (node.IsSequence()) {
      item->kind = Item::Kind::list;
      for (const auto& element : node) item->elements.push_back(read(element, depth + 1));
    } else if (node.IsMap()) {
      item->kind = Item::Kind::dict;
      for (const auto& member : node) add(*item, member.first, member.second, depth);
    } else if (node.IsScalar()) {
      item->value = tag == "!" || tag == "tag:yaml.org,2002:str" ? Json(node.Scalar())
                                                                 : plain_scalar(node.Scalar());
    }
    return item;
  }

  void add(Item& item, const YAML::Node& key, const YAML::Node& value, int depth) {
    if (!key.IsScalar()) throw Refused(at(key), "a key is text");
    if (key.Scalar() == "<<")
      throw Refused(at(key), "<< is not read: write the keys out, or name them with %");
    if (item.find(key.Scalar()))
      throw Refused(at(key), "the key \"" + key.Scalar() + "\" stands here twice");
    auto member = read(value, depth + 1);
    member->key_at = at(key);
    item.members.emplace_back(key.Scalar(), std::move(member));
  }
};

}  // namespace

ItemPtr read_yaml(const std::string& text, const std::string& shown);
ItemPtr read_yaml(const std::string& text, const std::string& shown) {
  try {
    return Reader{shown}.read(YAML::Load(text), 0);
  } catch (const YAML::Exception& e) {
    throw Refused({shown, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
}

}  // namespace sluice::bundle
