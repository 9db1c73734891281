#include "engine/graph/graph_text.h"

#include <algorithm>
#include <cstring>

namespace sluice {

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static std::string plain(const Json& value) {
  if (!value.is_structured()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const auto& [key, member] : value.items()) {
    if (!out.empty()) out += ", ";
    if (value.is_object()) out += Json(key).dump() + ": ";
    out += plain(member);
  }
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string in_one_line(const Json& value) {
  const std::string text = plain(value);
  if (!value.is_object() || value.empty()) return text;
  return "{ " + text.substr(1, text.size() - 2) + " }";
}

static std::string member(const std::string& key, const Json& value) {
  return Json(key).dump() + ": " + in_one_line(value);
}

static std::string parent_of(const std::string& pointer) {
  return pointer.substr(0, pointer.rfind('/'));
}

static std::string last_key(const std::string& pointer) {
  return nlohmann::json_pointer<std::string>(pointer).back();
}

GraphText::GraphText(DocumentPtr document)
    : document_(std::move(document)), from_(document_->text), lines_{0} {
  for (std::size_t i = 0; i < from_.size(); ++i)
    if (from_[i] == '\n') lines_.push_back(i + 1);
  if (lines_.size() > 1 && lines_[1] > 1 && from_[lines_[1] - 2] == '\r') new_line_ = "\r\n";
}

bool GraphText::holds(const std::string& pointer) const {
  return document_->values.count(pointer) > 0 &&
         Place{document_, pointer}.origin().document == document_;
}

// ---- where things stand -------------------------------------------------------------------------

// Columns count characters; those after the first byte of one are continuation bytes of UTF-8.
std::size_t GraphText::byte(const Mark& mark) const {
  std::size_t at = lines_[static_cast<std::size_t>(mark.line - 1)];
  if (at == 0 && from_.starts_with("\xEF\xBB\xBF")) at = 3;
  for (int column = 1; column < mark.column; ++column) do
      ++at;
    while ((static_cast<unsigned char>(from_[at]) & 0xC0) == 0x80);
  return at;
}

std::size_t GraphText::key_begin(const std::string& pointer) const {
  return byte(document_->keys.at(pointer));
}

std::size_t GraphText::value_begin(const std::string& pointer) const {
  return byte(document_->values.at(pointer));
}

std::size_t GraphText::skip_blank(std::size_t at) const {
  while (at < from_.size()) {
    if (from_.compare(at, 2, "//") == 0) {
      at = std::min(from_.find('\n', at), from_.size());
    } else if (from_.compare(at, 2, "/*") == 0) {
      at = from_.find("*/", at + 2) + 2;
    } else if (is_blank(from_[at])) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

std::size_t GraphText::value_end(const std::string& pointer) const {
  std::size_t at = value_begin(pointer);
  int depth = 0;
  do {
    at = skip_blank(at);
    const char c = from_[at];
    if (c == '"') {
      for (++at; from_[at] != '"'; ++at)
        if (from_[at] == '\\') ++at;
      ++at;
    } else if (std::strchr("{[", c)) {
      ++depth;
      ++at;
    } else if (std::strchr("}]", c)) {
      --depth;
      ++at;
    } else if (std::strchr(",:", c)) {
      ++at;
    } else {
      while (at < from_.size() && !std::strchr(" \t\r\n,:{}[]/\"", from_[at])) ++at;
    }
  } while (depth > 0);
  return at;
}

std::size_t GraphText::line_end(std::size_t at) const {
  std::size_t end = std::min(from_.find('\n', at), from_.size());
  if (end > at && from_[end - 1] == '\r') --end;
  for (std::size_t i = at; i < end; ++i) {
    if (from_.compare(i, 2, "//") == 0) return end;
    if (from_.compare(i, 2, "/*") == 0) {
      i = from_.find("*/", i + 2) + 1;
      if (i >= end) return at;  // the comment goes on in the next line
    } else if (!is_blank(from_[i])) {
      return at;
    }
  }
  return end;
}

std::string GraphText::indent(std::size_t at) const {
  std::size_t begin = at == 0 ? 0 : from_.rfind('\n', at - 1);
  begin = begin == std::string::npos ? 0 : begin + (from_[begin] == '\n' ? 1 : 0);
  std::size_t end = begin;
  while (end < from_.size() && (from_[end] == ' ' || from_[end] == '\t')) ++end;
  return from_.substr(begin, end - begin);
}

// ---- changes ------------------------------------------------------------------------------------

void GraphText::set(const std::string& pointer, const Json& value) {
  if (holds(pointer)) {
    const std::size_t begin = value_begin(pointer);
    edits_.push_back({begin, value_end(pointer) - begin, in_one_line(value)});
  } else if (const std::string parent = parent_of(pointer); holds(parent)) {
    add_last(parent, last_key(pointer), value);
  } else {
    set(parent, {{last_key(pointer), value}});
  }
}

void GraphText::add_last(const std::string& object, const std::string& key, const Json& value) {
  // Members that --set added stand nowhere in the text.
  const Json& members = document_->root.at(nlohmann::json_pointer<std::string>(object));
  std::vector<std::string> written;
  for (const auto& [name, unused] : members.items())
    if (const std::string at = Place{document_, object}.child(name).pointer; holds(at))
      written.push_back(at);
  if (written.empty()) {
    edits_.push_back({value_begin(object) + 1, 0, " " + member(key, value) + " "});
    return;
  }
  const std::size_t begin = key_begin(written.front()), end = value_end(written.back());
  // On a line of its own where the object is no single line.
  const bool is_long = from_.substr(value_begin(object), begin - value_begin(object)).find('\n') !=
                       std::string::npos;
  edits_.push_back(
      {end, 0,
       (is_long ? "," + new_line_ + indent(begin) : std::string(", ")) + member(key, value)});
}

void GraphText::remove(const std::string& pointer) {
  std::size_t begin = key_begin(pointer), end = value_end(pointer);
  const std::size_t next = skip_blank(end);
  if (from_[next] == ',') {
    end = next + 1;
    while (from_[end] == ' ') ++end;
    if (from_[end] == '\n' || from_[end] == '\r')
      while (from_[begin - 1] == ' ') --begin;
  } else {  // the last one: the comma after the one before it goes
    const std::size_t comma = comma_before(pointer);
    if (comma > 0 && from_.find_first_not_of(" \t\r\n", comma + 1) == begin)
      begin = comma;
    else if (comma > 0)
      edits_.push_back({comma, 1, ""});
  }
  edits_.push_back({begin, end - begin, ""});
}

// After the member before this one; 0 where it is the first.
std::size_t GraphText::comma_before(const std::string& pointer) const {
  const Place object{document_, parent_of(pointer)};
  std::size_t comma = 0;
  for (const auto& [key, value] :
       document_->root.at(nlohmann::json_pointer<std::string>(object.pointer)).items()) {
    const std::string member = object.child(key).pointer;
    if (member == pointer) break;
    comma = skip_blank(value_end(member));
  }
  return comma;
}

void GraphText::add_behind(const std::string& pointer, const std::string& key, const Json& value,
                           const std::string& comment) {
  const std::string indented = new_line_ + indent(key_begin(pointer));
  const std::string text =
      (comment.empty() ? "" : indented + "// " + comment) + indented + member(key, value);
  const std::size_t end = value_end(pointer), comma = skip_blank(end);
  if (from_[comma] != ',') {
    edits_.push_back({end, 0, ","});
    edits_.push_back({line_end(end), 0, text});
    return;
  }
  const std::size_t at = line_end(comma + 1);
  const bool more = at == comma + 1 && !std::strchr("\r\n", from_[at]);  // members on the same line
  edits_.push_back({at, 0, text + "," + (more ? indented : "")});
}

void GraphText::comment(const std::string& pointer, const std::string& text) {
  const std::size_t at = key_begin(pointer);
  edits_.push_back({at, 0, "// " + text + new_line_ + indent(at)});
}

std::string GraphText::text() const {
  auto edits = edits_;
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.at < b.at; });
  std::string out;
  std::size_t done = 0;
  for (const Edit& e : edits) {
    out.append(from_, done, e.at - done).append(e.text);
    done = e.at + e.length;
  }
  return out.append(from_, done, std::string::npos);
}

}  // namespace sluice
