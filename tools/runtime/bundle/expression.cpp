#include "tools/runtime/bundle/expression.h"

#include <algorithm>
#include <array>
#include <optional>

namespace sluice::bundle {
namespace {

struct Token {
  enum class Kind : std::uint8_t { name, number, text, format, reference, sign, end } kind;
  std::string text;
  Json value;
};

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)); }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Lexer {
 public:
  Lexer(const std::string& text, const At& at) : text_(text), at_(at) {}

  std::vector<Token> all() {
    std::vector<Token> tokens;
    while (true) {
      while (i_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[i_]))) ++i_;
      if (i_ >= text_.size()) break;
      tokens.push_back(next());
    }
    tokens.push_back({Token::Kind::end, "the end", {}});
    return tokens;
  }

 private:
  const std::string& text_;
  const At& at_;
  std::size_t i_ = 0;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Refused(at_, "\"$" + text_ + "\": " + what);
  }
  char peek(std::size_t ahead = 0) const {
    return i_ + ahead < text_.size() ? text_[i_ + ahead] : '\0';
  }

  Token next() {
    const char c = peek();
    if (c == '@') return reference();
    if (c == '\'' || c == '"') return text_token("");
    if (begins_name(c)) {
      std::string word;
      while (in_name(peek())) word += text_[i_++];
      const bool quoted = peek() == '\'' || peek() == '"';
      if (quoted && (word == "f" || word == "r" || word == "b" || word == "F" || word == "R"))
        return text_token(word);
      return {Token::Kind::name, word, {}};
    }
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    for (const std::string_view sign :
         {"...", "**", "//", "==", "!=", "<=", ">=", "<<", ">>", ":="})
      if (text_.compare(i_, sign.size(), sign) == 0) {
        i_ += sign.size();
        return {Token::Kind::sign, std::string(sign), {}};
      }
    if (std::string_view("+-*/%()[]{}.,:<>|&^~=").find(c) == std::string_view::npos)
      refuse(std::string("what is \"") + c + "\"?");
    ++i_;
    return {Token::Kind::sign, std::string(1, c), {}};
  }

  // "@a#b::0", as MONAI cuts it out of an expression.
  Token reference() {
    std::string id;
    ++i_;
    while (true) {
      if (in_name(peek()) || peek() == '#') {
        id += text_[i_++];
      } else if (peek() == ':' && peek(1) == ':') {
        id += '#';
        i_ += 2;
      } else {
        return {Token::Kind::reference, id, {}};
      }
    }
  }

  Token number() {
    std::string digits;
    bool real = false;
    while (is_digit(peek()) || peek() == '.' || peek() == 'e' || peek() == 'E' || peek() == '_' ||
           ((peek() == '-' || peek() == '+') && (text_[i_ - 1] == 'e' || text_[i_ - 1] == 'E'))) {
      real = real || !(is_digit(peek()) || peek() == '_');
      if (peek() != '_') digits += peek();
      ++i_;
    }
    try {
      std::size_t read = 0;
      const Json value = real ? Json(std::stod(digits, &read)) : Json(std::stoll(digits, &read));
      const bool octal = !real && digits.size() > 1 && digits[0] == '0' && value != 0;
      if (read == digits.size() && !octal) return {Token::Kind::number, digits, value};
    } catch (const std::exception&) {
    }
    refuse("\"" + digits + "\" is no number");
  }

  Token text_token(const std::string& prefix) {
    const char quote = text_[i_++];
    const bool raw = prefix == "r" || prefix == "R", format = prefix == "f" || prefix == "F";
    if (prefix == "b") refuse("bytes are not read");
    std::string out;
    for (; peek() != quote; ++i_) {
      if (i_ >= text_.size()) refuse("the text is not closed");
      if (peek() != '\\' || raw) {
        out += peek();
        continue;
      }
      ++i_;
      switch (peek()) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case '\\':
        case '\'':
        case '"':
          out += peek();
          break;
        default:
          refuse("an escape that is not read: write the character itself");
      }
    }
    ++i_;
    return {format ? Token::Kind::format : Token::Kind::text, out, Json(out)};
  }
};

using Tree = Expr::Kind;

ExprPtr make(Tree kind, std::string text = "", std::vector<ExprPtr> args = {},
             std::vector<std::string> names = {}, Json value = {}) {
  return std::make_shared<const Expr>(
      Expr{kind, std::move(text), std::move(value), std::move(args), std::move(names)});
}

class Parser {
 public:
  Parser(const std::string& text, const std::string& id, const At& at)
      : text_(text), id_(id), at_(at), tokens_(Lexer(text, at).all()) {}

  ExprPtr whole() {
    ExprPtr e = tuple_or_one();
    if (token().kind != Token::Kind::end) unexpected();
    return e;
  }

 private:
  const std::string &text_, &id_;
  const At& at_;
  std::vector<Token> tokens_;
  std::size_t i_ = 0;
  int depth_ = 0;

  [[noreturn]] void refuse(const std::string& what) const {
    throw Refused(at_, "\"$" + text_ + "\": " + what);
  }
  [[noreturn]] void unexpected() const { refuse("\"" + token().text + "\" is not expected there"); }

  const Token& token() const { return tokens_[i_]; }
  bool is(const char* text) const {
    return token().text == text &&
           (token().kind == Token::Kind::sign || token().kind == Token::Kind::name);
  }
  bool take(const char* text) {
    if (!is(text)) return false;
    ++i_;
    return true;
  }
  void need(const char* text) {
    if (!take(text)) refuse(std::string("\"") + text + "\" is missing before " + token().text);
  }

  struct Deeper {
    int& depth;
    Deeper(Parser& p) : depth(++p.depth_) {
      if (depth > 100) p.refuse("nested deeper than 100");
    }
    ~Deeper() { --depth; }
  };

  ExprPtr tuple_or_one() {
    ExprPtr first = one();
    if (!is(",")) return first;
    std::vector<ExprPtr> elements{std::move(first)};
    while (take(",") && !closes()) elements.push_back(one());
    return make(Tree::tuple, "", std::move(elements));
  }
  bool closes() const {
    return is(")") || is("]") || is("}") || is(":") || token().kind == Token::Kind::end;
  }

  ExprPtr one() {
    const Deeper deeper(*this);
    if (is("*") || is("**")) {
      const std::string star = token().text;
      ++i_;
      return make(Tree::star, star, {one()});
    }
    if (take("lambda")) return lambda();
    ExprPtr e = either();
    if (!take("if")) return e;
    ExprPtr condition = either();
    need("else");
    return make(Tree::conditional, "", {std::move(e), std::move(condition), one()});
  }

  ExprPtr lambda() {
    std::vector<std::string> names;
    std::vector<ExprPtr> args{nullptr};
    while (!take(":")) {
      if (!take("**")) take("*");  // the others, which nothing reads
      if (token().kind != Token::Kind::name) unexpected();
      names.push_back(token().text);
      ++i_;
      args.push_back(take("=") ? one() : nullptr);  // a default
      if (!is(":")) need(",");
    }
    args[0] = one();
    return make(Tree::lambda, "", std::move(args), std::move(names));
  }

  ExprPtr either() {
    ExprPtr e = both();
    while (take("or")) e = make(Tree::binary, "or", {e, both()});
    return e;
  }
  ExprPtr both() {
    ExprPtr e = negated();
    while (take("and")) e = make(Tree::binary, "and", {e, negated()});
    return e;
  }
  ExprPtr negated() {
    const Deeper deeper(*this);
    if (take("not")) return make(Tree::unary, "not", {negated()});
    return comparison();
  }

  ExprPtr comparison() {
    ExprPtr e = binary(0), left = e, all;
    while (true) {
      std::string op;
      for (const char* sign : {"==", "!=", "<=", ">=", "<", ">"})
        if (op.empty() && take(sign)) op = sign;
      if (op.empty() && take("in")) op = "in";
      if (op.empty() && is("not") && tokens_[i_ + 1].text == "in") {
        i_ += 2;
        op = "not in";
      }
      if (op.empty() && take("is")) op = take("not") ? "is not" : "is";
      if (op.empty()) return all ? all : e;
      ExprPtr right = binary(0);
      ExprPtr now = make(Tree::binary, op, {left, right});
      all = all ? make(Tree::binary, "and", {all, now}) : now;
      left = right;
    }
  }

  ExprPtr binary(std::size_t level) {
    static const std::array<std::vector<const char*>, 6> levels{
        {{"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%"}}};
    if (level == levels.size()) return unary();
    ExprPtr e = binary(level + 1);
    while (true) {
      const char* op = nullptr;
      for (const char* sign : levels[level])
        if (!op && take(sign)) op = sign;
      if (!op) return e;
      e = make(Tree::binary, op, {e, binary(level + 1)});
    }
  }

  ExprPtr unary() {
    const Deeper deeper(*this);
    for (const char* sign : {"-", "+", "~"})
      if (take(sign)) return make(Tree::unary, sign, {unary()});
    ExprPtr e = trailer(atom());
    if (take("**")) return make(Tree::binary, "**", {e, unary()});
    return e;
  }

  ExprPtr trailer(ExprPtr e) {
    while (true) {
      if (take(".")) {
        if (token().kind != Token::Kind::name) unexpected();
        e = make(Tree::attribute, token().text, {e});
        ++i_;
      } else if (take("(")) {
        e = call(std::move(e));
      } else if (take("[")) {
        std::vector<ExprPtr> at{subscript()};
        bool several = false;
        while (take(",")) {
          several = true;
          if (!is("]")) at.push_back(subscript());
        }
        need("]");
        e = make(Tree::subscript, "",
                 {e, several ? make(Tree::tuple, "", std::move(at)) : at.front()});
      } else {
        return e;
      }
    }
  }

  ExprPtr call(ExprPtr function) {
    std::vector<ExprPtr> args{std::move(function)};
    std::vector<std::string> names;
    while (!take(")")) {
      const bool named = token().kind == Token::Kind::name && tokens_[i_ + 1].text == "=" &&
                         tokens_[i_ + 1].kind == Token::Kind::sign;
      names.push_back(named ? token().text : "");
      if (named) i_ += 2;
      ExprPtr value = one();
      if (is("for")) value = comprehension("generator", {value}, nullptr);
      args.push_back(std::move(value));
      if (!is(")")) need(",");
    }
    return make(Tree::call, "", std::move(args), std::move(names));
  }

  ExprPtr subscript() {
    ExprPtr from, to, step;
    if (!is(":")) from = one();
    if (!take(":")) return from;
    if (!is(":") && !is("]") && !is(",")) to = one();
    if (take(":") && !is("]") && !is(",")) step = one();
    return make(Tree::slice, "", {from, to, step});
  }

  // After its element.
  ExprPtr comprehension(const char* what, std::vector<ExprPtr> args, const char* end) {
    need("for");
    std::vector<std::string> names;
    const bool braced = take("(");
    do {
      if (token().kind != Token::Kind::name) unexpected();
      names.push_back(token().text);
      ++i_;
    } while (take(",") && !is("in"));
    if (braced) need(")");
    need("in");
    args.push_back(either());
    while (take("if")) args.push_back(either());
    if (is("for")) refuse("a comprehension over two lists is not read");
    if (end) need(end);
    return make(Tree::comprehension, what, std::move(args), std::move(names));
  }

  ExprPtr atom() {
    const Token t = token();
    ++i_;
    switch (t.kind) {
      case Token::Kind::number:
        return make(Tree::constant, "", {}, {}, t.value);
      case Token::Kind::text: {
        std::string whole = t.text;
        while (token().kind == Token::Kind::text) whole += tokens_[i_++].text;
        return make(Tree::constant, "", {}, {}, Json(whole));
      }
      case Token::Kind::format:
        return format(t.text);
      case Token::Kind::reference:
        return make(Tree::reference, absolute_id(t.text, id_, at_));
      case Token::Kind::name:
        if (t.text == "True") return make(Tree::constant, "", {}, {}, Json(true));
        if (t.text == "False") return make(Tree::constant, "", {}, {}, Json(false));
        if (t.text == "None") return make(Tree::constant);
        return make(Tree::name, t.text);
      default:
        break;
    }
    if (t.text == "...") return make(Tree::name, t.text);
    if (t.text == "(") return in_parentheses();
    if (t.text == "[") return in_brackets();
    if (t.text == "{") return in_braces();
    --i_;
    unexpected();
  }

  ExprPtr in_parentheses() {
    if (take(")")) return make(Tree::tuple);
    ExprPtr e = tuple_or_one();
    if (is("for")) return comprehension("generator", {e}, ")");
    need(")");
    return e;
  }

  ExprPtr in_brackets() {
    std::vector<ExprPtr> elements;
    while (!take("]")) {
      elements.push_back(one());
      if (is("for")) return comprehension("list", {elements.front()}, "]");
      if (!is("]")) need(",");
    }
    return make(Tree::list, "", std::move(elements));
  }

  ExprPtr in_braces() {
    std::vector<ExprPtr> members;
    bool is_set = false;
    while (!take("}")) {
      if (take("**")) {
        members.push_back(nullptr);
        members.push_back(one());
      } else {
        ExprPtr key = one();
        is_set = !is(":");
        members.push_back(key);
        if (take(":")) members.push_back(one());
        if (is("for")) return comprehension(is_set ? "set" : "dict", std::move(members), "}");
      }
      if (!is("}")) need(",");
    }
    return make(is_set ? Tree::set : Tree::dict, "", std::move(members));
  }

  // "a{@b}c{d:.2f}": a format after ":" is not read.
  ExprPtr format(const std::string& text) {
    std::vector<ExprPtr> parts;
    std::string plain;
    const auto close = [&] {
      if (!plain.empty()) parts.push_back(make(Tree::constant, "", {}, {}, Json(plain)));
      plain.clear();
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
        plain += c;
        ++i;
      } else if (c == '{') {
        const auto end = text.find('}', i);
        if (end == std::string::npos) refuse("a } is missing");
        close();
        const std::string inner = text.substr(i + 1, end - i - 1);
        parts.push_back(Parser(inner, id_, at_).whole());
        i = end;
      } else {
        plain += c;
      }
    }
    close();
    return make(Tree::format, "", std::move(parts));
  }
};

std::optional<Json> literal_of(const Expr& e) {
  if (e.kind == Tree::constant) return e.value;
  if (e.kind == Tree::name) return e.text;
  if (e.kind == Tree::unary && (e.text == "-" || e.text == "+")) {
    const auto number = literal_of(*e.args[0]);
    if (!number || !number->is_number() || e.text == "+") return number;
    return number->is_number_integer() ? Json(-number->get<std::int64_t>())
                                       : Json(-number->get<double>());
  }
  const bool is_dict = e.kind == Tree::dict;
  if (!is_dict && e.kind != Tree::list && e.kind != Tree::tuple) return {};
  Json out = is_dict ? Json::object() : Json::array();
  for (std::size_t i = 0; i < e.args.size(); ++i) {
    const auto key = is_dict && e.args[i] ? literal_of(*e.args[i++]) : std::nullopt;
    const auto value = e.args[i] ? literal_of(*e.args[i]) : std::nullopt;
    if (!value || is_dict != (key && key->is_string())) return {};
    if (is_dict)
      out[key->get<std::string>()] = *value;
    else
      out.push_back(*value);
  }
  return out;
}

std::string renamed(const std::string& name,
                    const std::vector<std::pair<std::string, std::string>>& names) {
  for (auto i = names.rbegin(); i != names.rend(); ++i)
    if (i->first == name) return i->second;
  return name;
}

void write_tree(const ExprPtr& e, std::vector<std::pair<std::string, std::string>>& names,
                std::string& out) {
  if (!e) {
    out += "_";
    return;
  }
  static constexpr std::array words{"",      "",     "@",   ".",   "call", "at",
                                    "slice", "",     "",    "if",  "list", "tuple",
                                    "set",   "dict", "fun", "for", "star", "format"};
  const auto known = names.size();
  switch (e->kind) {
    case Tree::constant:
      out += e->value.dump();
      return;
    case Tree::name:
      out += renamed(e->text, names);
      return;
    case Tree::reference:
      out += "@" + e->text;
      return;
    default:
      break;
  }
  out += std::string("(") + words[static_cast<std::size_t>(e->kind)];
  out += e->text.empty() ? "" : (out.back() == '(' ? "" : " ") + e->text;
  if (e->kind == Tree::lambda || e->kind == Tree::comprehension) {
    for (const auto& name : e->names) names.emplace_back(name, "%" + std::to_string(names.size()));
  } else {
    for (const auto& name : e->names) out += " " + (name.empty() ? "-" : name);
  }
  for (const auto& arg : e->args) {
    out += " ";
    write_tree(arg, names, out);
  }
  names.resize(known);
  out += ")";
}

}  // namespace

ExprPtr parse_expression(const std::string& text, const std::string& id, const At& at) {
  const auto begin = text.find_first_not_of(" \t\n");
  const std::string_view rest =
      begin == std::string::npos ? "" : std::string_view(text).substr(begin);
  if (rest.starts_with("import ") || rest.starts_with("from ")) return nullptr;
  return Parser(text, id, at).whole();
}

std::optional<Json> python_literal(const std::string& text) {
  try {
    const ExprPtr e = parse_expression(text, "", {});
    return e ? literal_of(*e) : std::nullopt;
  } catch (const Refused&) {  // a text
    return {};
  }
}

std::string text_of(const Expr& e) {
  std::string out;
  std::vector<std::pair<std::string, std::string>> names;
  write_tree(std::make_shared<const Expr>(e), names, out);
  return out;
}

}  // namespace sluice::bundle
