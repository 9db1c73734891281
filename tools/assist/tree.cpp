#include "tools/assist/tree.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace sluice::assist {
namespace {

constexpr std::size_t max_depth = 64;  // as document.cpp has it

std::string decoded(std::string_view token) {
  if (token.find('\\') == std::string_view::npos) {
    token.remove_prefix(1);
    if (token.ends_with('"')) token.remove_suffix(1);
    return std::string(token);
  }
  const Json value = Json::parse(token, nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string(token.substr(1));
}

class Parser {
 public:
  Parser(std::string_view text, Tree& tree) : text_(text), tree_(tree) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  void run() {
    skip_blank();
    // What stands around the graph is none of it.
    while (at_ < text_.size() && peek() != '{') {
      if (peek() == '"')
        string_end();
      else
        ++at_;
      skip_blank();
    }
    tree_.root.span = {at_, at_};
    if (at_ < text_.size()) value(tree_.root, 0);
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool ended() const { return at_ >= text_.size(); }

  void skip_blank() {
    while (!ended()) {
      const auto rest = text_.substr(at_, 2);
      if (rest == "//" || rest == "/*") {
        const std::size_t begin = at_;
        const auto end = rest == "//" ? text_.find('\n', at_) : text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + (rest == "//" ? 0 : 2);
        tree_.comments.push_back({begin, at_});
      } else if (std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0') {
        ++at_;
      } else {
        return;
      }
    }
  }

  // Steps over a string; false where its line ends before it does.
  bool string_end() {
    for (++at_; !ended() && peek() != '\n' && peek() != '\r'; ++at_) {
      if (peek() == '"') {
        ++at_;
        return true;
      }
      if (peek() == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    }
    at_ = std::min(at_, text_.size());
    return false;
  }

  static bool is_delimiter(char c) { return std::strchr(" \t\r\n,:{}[]\"", c) != nullptr; }

  void word() {
    do ++at_;
    while (!ended() && !is_delimiter(peek()) && text_.substr(at_, 2) != "//" &&
           text_.substr(at_, 2) != "/*");
  }

  // Whether what follows is a key: then no value stands here.
  bool is_key() {
    const std::size_t before = at_, comments = tree_.comments.size();
    bool found = false;
    if (peek() == '"' && string_end()) {
      skip_blank();
      found = peek() == ':';
    }
    at_ = before;
    tree_.comments.resize(comments);
    return found;
  }

  void value(Value& v, std::size_t depth) {
    v.span = {at_, at_};
    const char c = peek();
    if (c == '{' || c == '[') {
      v.kind = c == '{' ? Value::Kind::object : Value::Kind::array;
      ++at_;
      if (depth >= max_depth)
        skip_brackets();
      else
        members(v, depth);
    } else if (c == '"') {
      v.kind = Value::Kind::text;
      v.closed = string_end();
      v.text = decoded(text_.substr(v.span.begin, at_ - v.span.begin));
    } else {
      v.kind = Value::Kind::plain;
      word();
      v.text = text_.substr(v.span.begin, at_ - v.span.begin);
    }
    v.span.end = at_;
  }

  void skip_brackets() {
    for (std::size_t open = 1; open > 0 && !ended();) {
      skip_blank();
      const char c = peek();
      if (c == '"') {
        string_end();
        continue;
      }
      if (c == '{' || c == '[') ++open;
      if (c == '}' || c == ']') --open;
      ++at_;
    }
    at_ = std::min(at_, text_.size());
  }

  void members(Value& v, std::size_t depth) {
    const bool object = v.is(Value::Kind::object);
    const char mine = object ? '}' : ']', other = object ? ']' : '}';
    open_.push_back(mine);
    for (;;) {
      skip_blank();
      if (ended()) {
        v.closed = false;
        break;
      }
      const char c = peek();
      if (c == mine) {
        ++at_;
        break;
      }
      if (c == other) {
        // One that closes what stands around it ends this one too.
        if (std::find(open_.begin(), open_.end(), other) != open_.end()) {
          v.closed = false;
          break;
        }
        ++at_;
        continue;
      }
      if (c == ',' || c == ':' || c == '\0') {
        ++at_;
        continue;
      }
      if (object)
        member(v, depth);
      else
        element(v, depth);
    }
    open_.pop_back();
  }

  void element(Value& list, std::size_t depth) {
    Value v;
    v.name = std::to_string(list.members.size());
    value(v, depth + 1);
    list.members.push_back(std::move(v));
  }

  void member(Value& object, std::size_t depth) {
    Value v;
    v.key.begin = at_;
    const char c = peek();
    if (c == '"') {
      v.closed = string_end();
      v.name = decoded(text_.substr(v.key.begin, at_ - v.key.begin));
    } else if (c == '{' || c == '[') {  // a value without a key
      Value lost;
      value(lost, depth + 1);
      return;
    } else {
      word();
      v.name = text_.substr(v.key.begin, at_ - v.key.begin);
    }
    v.key.end = at_;
    const std::size_t after_key = at_;
    const bool key_closed = v.closed;
    skip_blank();
    v.colon = peek() == ':';
    if (!v.colon) {
      v.span = {after_key, after_key};
      if (text_.substr(after_key, at_ - after_key).find('\n') == std::string_view::npos)
        v.span.end = at_;
      object.members.push_back(std::move(v));
      return;
    }
    const std::size_t after_colon = ++at_;
    skip_blank();
    v.closed = true;
    if (ended() || std::strchr(",]}:", peek()) || is_key()) {
      v.span = {after_colon, at_};
    } else {
      value(v, depth + 1);
    }
    v.closed = v.closed && key_closed;
    object.members.push_back(std::move(v));
  }

  std::string_view text_;
  Tree& tree_;
  std::size_t at_ = 0;
  std::vector<char> open_;
};

void descend(const Value& v, std::size_t at, std::vector<const Value*>& path) {
  path.push_back(&v);
  const Value* nearest = nullptr;
  for (const Value& m : v.members) {
    const bool inside = m.span.touches(at) || (!m.key.empty() && m.key.touches(at));
    if (inside && (!nearest || !m.is(Value::Kind::missing))) nearest = &m;
  }
  // At the edge of a bracket the cursor stands outside of it.
  if (nearest && (nearest->is(Value::Kind::object) || nearest->is(Value::Kind::array)) &&
      !nearest->key.touches(at) &&
      (at <= nearest->span.begin || (at >= nearest->span.end && nearest->closed)))
    nearest = nullptr;
  if (nearest) descend(*nearest, at, path);
}

Json json_of(const Value& v) {
  if (v.is(Value::Kind::text)) return v.text;
  if (v.is(Value::Kind::plain)) return Json::parse(v.text, nullptr, false);
  Json out = v.is(Value::Kind::object) ? Json::object() : Json::array();
  std::unordered_set<std::string_view> known;
  for (const Value& m : v.members) {
    if (m.is(Value::Kind::missing)) continue;
    if (out.is_object() && !known.insert(m.name).second) continue;
    Json value = json_of(m);
    if (value.is_discarded()) continue;
    if (out.is_object())
      out.get_ref<Json::object_t&>().emplace_back(m.name, std::move(value));
    else
      out.push_back(std::move(value));
  }
  return out;
}

}  // namespace

const Value* Value::find(std::string_view key_name) const {
  for (const Value& m : members)
    if (m.name == key_name) return &m;
  return nullptr;
}

std::string_view Value::text_of(std::string_view key_name) const {
  const Value* v = find(key_name);
  return v && v->is(Kind::text) ? std::string_view(v->text) : std::string_view();
}

Tree read_tree(std::string_view text) {
  Tree tree;
  Parser(text, tree).run();
  return tree;
}

std::vector<const Value*> path_to(const Tree& tree, std::size_t at) {
  std::vector<const Value*> path;
  const Value& root = tree.root;
  if (!root.is(Value::Kind::object) || at <= root.span.begin ||
      (at >= root.span.end && root.closed))
    return path;
  descend(root, at, path);
  return path;
}

bool in_comment(const Tree& tree, std::size_t at) {
  return std::any_of(tree.comments.begin(), tree.comments.end(),
                     [&](const Span& c) { return c.begin < at && at <= c.end; });
}

std::string mended(const Tree& tree) {
  return json_of(tree.root).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string pointer_of(const std::vector<const Value*>& path) {
  Place place;
  for (std::size_t i = 1; i < path.size(); ++i) place = place.child(path[i]->name);
  return place.pointer;
}

const Value* at_pointer(const Tree& tree, const std::string& pointer, bool whole) {
  const Value* v = &tree.root;
  if (pointer.empty()) return v;
  if (pointer.front() != '/') return whole ? nullptr : v;
  std::vector<std::string> names;
  for (nlohmann::json_pointer<std::string> rest(pointer); !rest.empty(); rest.pop_back())
    names.push_back(rest.back());
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const Value* below = v->find(*name);
    if (!below) return whole ? nullptr : v;
    v = below;
  }
  return v;
}

Bytes::Bytes(std::string_view text) : text_(text), lines_{0} {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') lines_.push_back(i + 1);
}

Span Bytes::of(const Mark& mark) const {
  if (mark.line < 1 || static_cast<std::size_t>(mark.line) > lines_.size()) return {};
  std::size_t at = lines_[static_cast<std::size_t>(mark.line - 1)];
  if (at == 0 && text_.starts_with("\xEF\xBB\xBF")) at = 3;
  const auto step = [&](int characters) {
    for (; characters > 0 && at < text_.size() && text_[at] != '\n'; --characters) do
        ++at;
      while (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80);
  };
  step(mark.column - 1);
  const std::size_t begin = at;
  step(mark.length);
  return {begin, at};
}

}  // namespace sluice::assist
