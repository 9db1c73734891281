#include "engine/base/document.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <unordered_set>

#include "engine/base/diagnostic.h"
#include "engine/base/read_file.h"
#include "engine/base/system_call.h"

namespace sluice {
namespace {

constexpr std::size_t max_bytes = std::size_t{16} << 20;
constexpr std::size_t max_values = 1'000'000;
constexpr std::size_t max_depth = 64;

std::string escape(std::string_view key) {
  std::string out;
  for (char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

// Walks over the text token by token, in step with nlohmann's parser, and counts lines and columns
// (in characters, not bytes). The parser calls back only after it has accepted a token, so the
// cursor may take every token for well-formed.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark has no width
  }

  // Steps over the next token that is neither ',' nor ':' and says where it stands.
  Mark token() {
    skip_blank();
    const Mark start{line_, column_};
    const char first = peek();
    if (first == '"') {
      do step(peek() == '\\' ? 2 : 1);
      while (at_ < text_.size() && peek() != '"');
      step();
    } else if (std::strchr("{}[]", first)) {
      step();
    } else {
      while (at_ < text_.size() && !std::strchr(" \t\r\n,:{}[]/", peek())) step();
    }
    return {start.line, start.column, std::max(1, column_ - start.column)};
  }

  // The byte where the token begins that the parser refused after it had read `end` bytes.
  std::size_t refused(std::size_t end) {
    skip_blank(end == 0 ? 0 : end - 1);
    return at_;
  }

  // The place of a byte of the text.
  static Mark locate(std::string_view text, std::size_t byte, std::size_t length) {
    Cursor cursor(text);
    while (cursor.at_ < std::min(byte, text.size())) cursor.step();
    const Mark start{cursor.line_, cursor.column_};
    while (cursor.at_ < std::min(byte + length, text.size()) && cursor.peek() != '\n')
      cursor.step();
    return {start.line, start.column, std::max(1, cursor.column_ - start.column)};
  }

 private:
  char peek() const { return text_[at_]; }
  bool starts(std::string_view s) const { return text_.substr(at_).starts_with(s); }

  void step(int bytes = 1) {
    for (; bytes > 0 && at_ < text_.size(); --bytes) {
      const auto c = static_cast<unsigned char>(text_[at_++]);
      if (c == '\n') {
        ++line_;
        column_ = 1;
      } else if ((c & 0xC0) != 0x80) {  // not a continuation byte of UTF-8
        ++column_;
      }
    }
  }

  void skip_blank(std::size_t end = std::string_view::npos) {
    while (at_ < std::min(end, text_.size())) {
      if (starts("//")) {
        while (at_ < text_.size() && peek() != '\n') step();
      } else if (starts("/*") && text_.find("*/", at_ + 2) != std::string_view::npos) {
        step(2);
        while (at_ < text_.size() && !starts("*/")) step();
        step(2);
      } else if (std::strchr(" \t\r\n,:", peek())) {
        step();
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

// Builds the document from nlohmann's events and lays a mark beside every value and key.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::shared_ptr<Document> document, Diagnostics& diagnostics)
      : document_(std::move(document)), cursor_(document_->text), diagnostics_(diagnostics) {}

  bool null() override { return put(Json()); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override {
    const bool fits = v <= std::uint64_t(std::numeric_limits<std::int64_t>::max());
    return put(v) && (fits || refuse_number(std::to_string(v)));
  }
  // An integer of more than 64 bits arrives here too; nlohmann would keep it as a rounded double.
  bool number_float(number_float_t v, const std::string& text) override {
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    return put(v) && (!is_integer || refuse_number(text));
  }
  bool string(std::string& v) override { return put(std::move(v)); }
  bool binary(Json::binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    const Mark mark = cursor_.token();
    Frame& top = stack_.back();
    const std::string pointer = top.pointer + "/" + escape(name);
    const bool is_new = top.keys.insert(name).second;
    if (is_new) {
      document_->keys.emplace(pointer, mark);
    } else {
      refuse_duplicate(name, pointer, mark);
    }
    pointer_ = pointer;
    if (is_new) {
      // Json::operator[] would search the whole object for every new key.
      auto& members = *top.container->get_ptr<Json::object_t*>();
      slot_ = &members.emplace_back(std::move(name), Json()).second;
    } else {
      slot_ = &spare_.emplace_back();
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& problem) override;

 private:
  struct Frame {
    Json* container;
    std::string pointer;
    std::unordered_set<std::string> keys;
  };

  // Puts a value into the slot that its key or its list has prepared. False: give up.
  bool put(Json value) {
    mark_ = cursor_.token();
    if (++count_ > max_values) {
      refuse("SL0105", "more than a million values in one file");
      return false;
    }
    if (!stack_.empty() && stack_.back().container->is_array()) {
      Frame& top = stack_.back();
      pointer_ = top.pointer + "/" + std::to_string(top.container->size());
      top.container->push_back(Json());
      slot_ = &top.container->back();
    }
    *slot_ = std::move(value);
    document_->values.emplace(pointer_, mark_);
    return true;
  }

  bool open(Json container) {
    if (!put(std::move(container))) return false;
    if (stack_.size() == max_depth) {
      refuse("SL0104", "nested deeper than 64 levels");
      return false;
    }
    stack_.push_back({slot_, pointer_, {}});
    return true;
  }

  bool close() {
    cursor_.token();
    stack_.pop_back();
    return true;
  }

  Diagnostic& refuse(std::string code, std::string message) {
    // The place may have no pointer of its own (a second key of one name, a syntax error), so it
    // gets one that no JSON pointer can be.
    const std::string pointer = "fault " + std::to_string(++faults_);
    document_->values[pointer] = mark_;
    return diagnostics_.error(std::move(code), std::move(message), {document_, pointer});
  }

  bool refuse_number(const std::string& text) {
    document_->refused.insert(pointer_);
    refuse("SL0107", "the integer " + text + " does not fit into 64 bits");
    return true;
  }

  void refuse_duplicate(const std::string& name, const std::string& pointer, Mark mark) {
    mark_ = mark;
    refuse("SL0103", "duplicate key " + Json(name).dump()).hint =
        "the first one stands in line " + std::to_string(document_->keys.at(pointer).line);
  }

  std::shared_ptr<Document> document_;
  Cursor cursor_;
  Diagnostics& diagnostics_;
  std::vector<Frame> stack_;
  std::deque<Json> spare_;  // values of duplicate keys; a deque keeps their addresses
  Json* slot_ = &document_->root;
  std::string pointer_;
  Mark mark_;
  std::size_t count_ = 0, faults_ = 0;
};

// "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while parsing
// object key - unexpected '}'; expected string literal" -> "syntax error while parsing object key:
// unexpected '}', expected string literal"
std::string short_message(std::string what) {
  if (const auto end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
  if (what.starts_with("parse error"))
    if (const auto end = what.find(": "); end != std::string::npos) what.erase(0, end + 2);
  if (const auto read = what.find("; last read:"); read != std::string::npos) {
    const auto rest = what.find("; expected", read);
    what.erase(read, rest == std::string::npos ? rest : rest - read);
  }
  for (auto at = what.find("; "); at != std::string::npos; at = what.find("; ")) what[at] = ',';
  if (const auto dash = what.find(" - "); dash != std::string::npos) what.replace(dash, 3, ": ");
  return what;
}

// What a person most likely did at the byte that the parser refused: the code, what to say, and
// where.
struct Slip {
  std::string code = "SL0102", message, hint;
  std::size_t at = 0, length = 1;
};

std::size_t word_length(std::string_view text, std::size_t at) {
  std::size_t n = 0;
  while (at + n < text.size() && (std::isalnum(static_cast<unsigned char>(text[at + n])) ||
                                  std::strchr("_'+-.", text[at + n])))
    ++n;
  return std::max<std::size_t>(1, n);
}

// A value that other languages write so.
std::string spelt_in_json(std::string_view word) {
  const std::pair<std::string_view, const char*> words[] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}, {"nil", "null"}, {"NULL", "null"}};
  for (const auto& [other, json] : words)
    if (word == other) return std::string("write ") + json;
  if (word == "NaN" || word == "nan" || word.find("nf") != std::string_view::npos)
    return "JSON has no such number";
  if (word.starts_with('.') || word.starts_with('+') || word.ends_with('.'))
    return "numbers begin and end with a digit: 0.5";
  return "strings stand in double quotes";
}

Slip slip(std::string_view text, std::size_t at, std::size_t length, const std::string& message) {
  const auto before = text.substr(0, at).find_last_not_of(" \t\r\n");
  const char previous = before == std::string_view::npos ? '\0' : text[before];
  const char found = at < text.size() ? text[at] : '\0';
  Slip s{"SL0102", message, "", at, length};
  const auto says = [&](const char* part) { return message.find(part) != std::string::npos; };
  if (says("missing closing quote") || says("missing closing '*/'")) {
    s = {"SL0110", "the file ends too early",
         says("quote") ? "this string is not closed" : "this comment is not closed", at, length};
  } else if (says("control character")) {
    if (says("U+000A") || says("U+000D"))
      s.hint = "a line ends inside a string; write \\n, or close the string";
  } else if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
             (found == '\0' && at < text.size())) {  // as UTF-16 begins, and as it writes letters
    s = {"SL0106", "the file is not UTF-8", "save the file as UTF-8", at, 1};
  } else if (found == '\0') {
    s = {"SL0110", "the file ends too early", "",
         before == std::string_view::npos ? 0 : before + 1};
  } else if (std::strchr("]}", found) && previous == ',') {
    s = {"SL0112", "a comma too many", "remove it", before, 1};
  } else if (found == '\'' || std::isalpha(static_cast<unsigned char>(found)) ||
             std::strchr("_.+", found)) {
    const std::size_t n = word_length(text, at);
    const std::string word(text.substr(at, n));
    s = {"SL0111",
         (says("object key") ? "expected a key in double quotes, found "
                             : "expected a JSON value, found ") +
             word,
         found == '\'' || says("object key") ? "strings stand in double quotes"
                                             : spelt_in_json(word),
         at, n};
  } else if (std::strchr("\"{[-0123456789", found) && previous &&
             std::strchr("\"}]0123456789el", previous)) {
    const bool colon = says("object separator");
    s.code = "SL0109";
    s.message = colon ? "a colon is missing" : "a comma is missing";
    s.hint = colon ? "expected a colon in front of it" : "expected a comma in front of it";
  } else if (found == '#') {
    s.hint = "comments begin with //";
  }
  return s;
}

bool Reader::parse_error(std::size_t position, const std::string& last_token,
                         const nlohmann::detail::exception& problem) {
  const std::string_view text = document_->text;
  const std::size_t start = cursor_.refused(position);
  const std::size_t length = position > start ? position - start : 1;
  mark_ = Cursor::locate(text, start, length);
  const std::string message = short_message(problem.what());
  if (message.find("UTF-8") != std::string::npos) {
    // The bad sequence: up to the byte that was read last.
    std::size_t bad = std::min(position, text.size()) - 1;
    while (bad > start && (static_cast<unsigned char>(text[bad]) & 0xC0) == 0x80) --bad;
    if (bad > start && static_cast<unsigned char>(text[bad]) < 0x80) --bad;
    mark_ = Cursor::locate(text, bad, 1);
    refuse("SL0106", "invalid UTF-8 in a string").hint = "save the file as UTF-8";
  } else if (message.starts_with("number overflow")) {
    refuse("SL0107", "the number " + last_token + " does not fit into a double");
  } else {
    Slip s = slip(text, start, length, message);
    const bool ended = stack_.empty() && count_ > 0;
    if (ended) s = {"SL0102", "text behind the end of the graph", "is a bracket too many?", start};
    mark_ = Cursor::locate(text, s.at, s.length);
    Diagnostic& d = refuse(s.code, s.message);
    d.hint = s.hint;
    if (s.code == "SL0110" && s.hint.empty() && !stack_.empty())
      d.hint = stack_.back().container->is_array() ? "expected ]" : "expected }";
    const bool bracket = start < text.size() && std::strchr("]}", text[start]);
    if ((s.code == "SL0110" || (s.code == "SL0102" && bracket)) && !stack_.empty())
      d.notes = {"the last " + std::string(stack_.back().container->is_array() ? "[" : "{") +
                 " that is open stands at " + Place{document_, stack_.back().pointer}.str()};
  }
  return false;
}

Place whole_file(const std::string& file) {
  auto document = std::make_shared<Document>();
  document->file = file;
  return {document, ""};
}

}  // namespace

Place Place::origin() const {
  if (!document || document->origins.empty()) return *this;
  for (std::string p = pointer;; p.erase(p.rfind('/'))) {
    if (auto at = document->origins.find(p); at != document->origins.end())
      return Place{at->second.document, at->second.pointer + pointer.substr(p.size()), at_key}
          .origin();
    if (p.find('/') == std::string::npos) return *this;
  }
}

Mark Place::mark() const {
  if (!document) return {0, 0};
  const Place at = origin();
  const auto& wanted = at_key ? at.document->keys : at.document->values;
  const auto& other = at_key ? at.document->values : at.document->keys;
  if (auto found = wanted.find(at.pointer); found != wanted.end()) return found->second;
  if (auto found = other.find(at.pointer); found != other.end()) return found->second;
  return {0, 0};
}

bool Place::is_known() const {
  return document && (mark().line > 0 || origin().document->text.empty());
}

std::string Place::str() const {
  if (!document) return "";
  const Mark m = mark();
  const std::string& file = origin().document->file;
  if (m.line == 0) return file;
  return file + ":" + std::to_string(m.line) + ":" + std::to_string(m.column);
}

Place Place::child(std::string_view key) const { return {document, pointer + "/" + escape(key)}; }
Place Place::child(std::size_t index) const {
  return {document, pointer + "/" + std::to_string(index)};
}

DocumentPtr parse_document(std::string file, std::string text, Diagnostics& diagnostics) {
  if (text.size() > max_bytes) {
    diagnostics.error("SL0105", "the file is larger than 16 MiB", whole_file(file));
    return nullptr;
  }
  auto document = std::make_shared<Document>();
  document->file = std::move(file);
  document->text = std::move(text);
  Reader reader(document, diagnostics);
  const bool complete = Json::sax_parse(document->text, &reader, Json::input_format_t::json,
                                        /*strict=*/true, /*ignore_comments=*/true);
  return complete ? document : nullptr;
}

DocumentPtr read_document(const std::string& file, Diagnostics& diagnostics) {
  const auto fail = [&](const std::string& why) {
    diagnostics.error("SL0101", "cannot read " + file + ": " + why, whole_file(file));
    return nullptr;
  };
  std::string text;
  try {
    text = read_text(file, max_bytes + 1);
  } catch (const MachineError&) {
    throw;  // the graph is not wrong
  } catch (const IoError& e) {
    return fail(std::string(e.what()).substr(("cannot read " + file + ": ").size()));
  }
  return parse_document(file, std::move(text), diagnostics);
}

}  // namespace sluice
