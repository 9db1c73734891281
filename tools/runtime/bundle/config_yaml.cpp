// YAML as PyYAML's safe loader reads it: version 1.1's plain scalars, anchors, no tags of one's
// own.
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <regex>

#include "engine/base/letter_case.h"
#include "tools/runtime/bundle/config.h"

namespace sluice::bundle {
namespace {

bool fits(const std::string& text, const std::regex& pattern) {
  return std::regex_match(text, pattern);
}

// What PyYAML takes a plain scalar for: its resolvers' patterns, of YAML 1.1. Dates stay texts.
std::string tag_of(const std::string& text) {
  static const std::pair<const char*, std::regex> tags[]{
      {"bool",
       std::regex("yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF")},
      {"float", std::regex("[-+]?[0-9][0-9_]*\\.[0-9_]*([eE][-+][0-9]+)?"
                           "|\\.[0-9][0-9_]*([eE][-+][0-9]+)?"
                           "|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\\.[0-9_]*"
                           "|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)")},
      {"int", std::regex("[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
                         "|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+")},
      {"null", std::regex("~|null|Null|NULL|")}};
  if (text.size() < 200)  // a number is no longer
    for (const auto& [tag, pattern] : tags)
      if (fits(text, pattern)) return tag;
  return "str";
}

// "1:30.5" is 90.5: parts of sixty.
double in_sixties(const std::string& text, int base) {
  double value = 0;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(':', begin)) != std::string::npos; begin = end + 1)
    value = (value + std::stod(text.substr(begin, end - begin))) * 60;
  const std::string last = text.substr(begin);
  return value +
         (base == 10 ? std::stod(last) : static_cast<double>(std::stoll(last, nullptr, base)));
}

// A scalar of a tag of YAML's own, as PyYAML makes it. Throws std::exception where it is none.
Json value_of(const std::string& tag, std::string text) {
  if (tag == "null") return nullptr;
  if (tag != "bool" && tag != "int" && tag != "float") return text;
  text = lower_case(text);
  if (tag == "bool") {
    if (tag_of(text) != "bool") throw std::invalid_argument(text);
    return text == "yes" || text == "true" || text == "on";
  }
  std::erase(text, '_');
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  if (tag == "float" && text == ".inf") text = "inf";
  if (tag == "float" && text == ".nan") text = "nan";
  int base = 10;
  if (tag == "int" && text.size() > 1 && text[0] == '0') {
    base = text[1] == 'b' ? 2 : text[1] == 'x' ? 16 : 8;
    text.erase(0, base == 8 ? 1 : 2);
  }
  const double value = in_sixties(text, base);
  if (tag == "float" || std::abs(value) > 9e18) return negative ? -value : value;
  const auto exact = text.find(':') == std::string::npos ? std::stoll(text, nullptr, base)
                                                         : static_cast<std::int64_t>(value);
  return negative ? -exact : exact;
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
      item->value = scalar(node, core ? tag.substr(tag.rfind(':') + 1) : tag);
    }
    return item;
  }

  // "!": it stands in quotes.
  Json scalar(const YAML::Node& node, const std::string& tag) const {
    const std::string& text = node.Scalar();
    try {
      return value_of(tag == "!" ? "str" : tag.empty() || tag == "?" ? tag_of(text) : tag, text);
    } catch (const std::exception&) {
      throw Refused(at(node), "\"" + text + "\" is no number that is read");
    }
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
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      throw Refused(Reader{shown}.at(documents[1]), "a second document: a configuration is one");
    return Reader{shown}.read(documents.empty() ? YAML::Node() : documents[0], 0);
  } catch (const YAML::Exception& e) {
    throw Refused({shown, e.mark.line + 1, e.mark.column + 1}, e.msg);
  }
}

}  // namespace sluice::bundle
