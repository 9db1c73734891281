#include "tools/assist/format.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/base/json.h"

namespace sluice::assist {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// The text with `end` at the end of each line, whatever stood there.
std::string with_ends(std::string_view text, std::string_view end) {
  std::string out;
  for (const char c : text) {
    if (c != '\n') {
      out += c;
      continue;
    }
    while (out.ends_with('\r')) out.pop_back();
    out += end;
  }
  return out;
}

// Of a text whose lines end with '\n'.
class Formatter {
 public:
  explicit Formatter(std::string_view text) : text_(text) {}

  std::string run() {
    if (text_.starts_with("\xEF\xBB\xBF")) {
      out_ = "\xEF\xBB\xBF";
      at_ = line_ = out_.size();
    }
    while (at_ < text_.size()) line();
    while (out_.ends_with('\n')) out_.pop_back();
    return out_ + "\n";
  }

 private:
  struct Open {
    std::size_t outside;  // the indent of the line that it stands in
    std::size_t inside;   // of lines within it
    bool fresh = true;    // nothing stands after it yet
  };

  char peek() const { return at_ < text_.size() ? text_[at_] : '\n'; }

  std::size_t indent() const {
    const char c = peek();
    if (open_.empty()) return 0;
    return c == '}' || c == ']' ? open_.back().outside : open_.back().inside;
  }

  void line() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    line_ = out_.size();
    if (peek() != '\n') {
      indent_ = indent();
      out_.append(indent_, ' ');
    }
    std::size_t blanks = 0;
    while (at_ < text_.size() && text_[at_] != '\n') {
      if (is_space(text_[at_])) {
        blanks += text_[at_] == ' ' ? 1 : text_[at_] == '\t' ? 2 : 0;
        ++at_;
        continue;
      }
      spaces(blanks);
      blanks = 0;
      token();
    }
    ++at_;
    if (!open_.empty()) open_.back().fresh = false;
    out_ += '\n';
    last_ = '\n';
  }

  void spaces(std::size_t blanks) {
    if (last_ == '\n') return;  // the indent stands there
    if (peek() == ':' || peek() == ',') blanks = 0;
    if ((last_ == ':' || last_ == ',') && blanks == 0) blanks = 1;
    out_.append(blanks, ' ');
  }

  void token() {
    const char c = text_[at_];
    // What follows a bracket on its line is what later lines stand below.
    if (!open_.empty() && open_.back().fresh && c != '/' && c != '}' && c != ']')
      open_.back().inside = width(std::string_view(out_).substr(line_));
    if (!open_.empty() && c != '/') open_.back().fresh = false;
    const auto two = text_.substr(at_, 2);
    if (two == "//") {
      copy(std::min(text_.find('\n', at_), text_.size()));
      while (!out_.empty() && is_space(out_.back())) out_.pop_back();
    } else if (two == "/*") {
      const auto end = text_.find("*/", at_ + 2);
      copy(end == std::string_view::npos ? text_.size() : end + 2);
      last_ = '/';
    } else if (c == '"') {
      std::size_t end = at_ + 1;
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\n')
        end += text_[end] == '\\' ? 2 : 1;
      copy(std::min(end + (end < text_.size() && text_[end] == '"' ? 1 : 0), text_.size()));
      last_ = '"';
    } else {
      if (c == '{' || c == '[') open_.push_back({indent_, indent_ + 2});
      if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
      out_ += c;
      last_ = c;
      ++at_;
    }
  }

  void copy(std::size_t end) {
    out_.append(text_.substr(at_, end - at_));
    at_ = end;
  }

  std::string_view text_;
  std::string out_;
  std::vector<Open> open_;
  std::size_t at_ = 0, line_ = 0, indent_ = 0;
  char last_ = '\n';
};

}  // namespace

bool is_json(const std::string& text) { return Json::accept(text, /*ignore_comments=*/true); }

std::string formatted(const std::string& text) {
  const auto first = text.find('\n');
  const bool crlf = first != std::string::npos && first > 0 && text[first - 1] == '\r';
  const std::string out = Formatter(with_ends(text, "\n")).run();
  return crlf ? with_ends(out, "\r\n") : out;
}

}  // namespace sluice::assist
