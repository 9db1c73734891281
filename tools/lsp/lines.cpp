#include "tools/lsp/lines.h"

#include <algorithm>

#include "engine/base/utf8.h"

namespace sluice::lsp {
namespace {

// Of the character at the beginning of a text. What is no UTF-8 counts as a unit a byte.
struct Step {
  std::size_t bytes, units;
};
Step step(std::string_view text, bool utf8) {
  const Character c = first_character(text);
  const std::size_t bytes = std::max<std::size_t>(1, c.bytes);
  return {bytes, utf8 ? bytes : c.code > 0xFFFF ? 2u : 1u};
}

std::size_t number(const Json& position, const char* key) {
  const auto at = position.is_object() ? position.find(key) : position.end();
  if (at == position.end() || !at->is_number_integer()) return 0;
  if (at->is_number_unsigned()) return at->get<std::size_t>();
  return static_cast<std::size_t>(std::max<std::int64_t>(0, at->get<std::int64_t>()));
}

}  // namespace

// Lines end as the protocol says: by \n, \r\n or \r.
Lines::Lines(std::string_view text, bool utf8) : text_(text), utf8_(utf8), begins_{0} {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n' || (text[i] == '\r' && !(i + 1 < text.size() && text[i + 1] == '\n')))
      begins_.push_back(i + 1);
  for (std::size_t line = 0; line < begins_.size(); ++line) stop_within(line);
}

void Lines::stop_within(std::size_t line) {
  constexpr std::size_t apart = 1024;
  const std::size_t end = end_of(line);
  std::size_t units = 0, next = begins_[line] + apart;
  for (std::size_t at = begins_[line]; next < end && at < end;) {
    const Step s = step(text_.substr(at, end - at), utf8_);
    at += s.bytes;
    units += s.units;
    if (at < next) continue;
    stops_.push_back({at, units});
    next = at + apart;
  }
}

std::size_t Lines::end_of(std::size_t line) const {
  std::size_t end = line + 1 < begins_.size() ? begins_[line + 1] : text_.size();
  while (end > begins_[line] && (text_[end - 1] == '\n' || text_[end - 1] == '\r')) --end;
  return end;
}

std::size_t Lines::byte(const Json& position) const {
  const std::size_t line = number(position, "line");
  if (line >= begins_.size()) return text_.size();
  const std::size_t end = end_of(line);
  std::size_t at = begins_[line], units = number(position, "character");
  while (at < end && units > 0) {
    const Step s = step(text_.substr(at, end - at), utf8_);
    if (s.units > units) break;  // within a character
    units -= s.units;
    at += s.bytes;
  }
  return at;
}

Json Lines::position(std::size_t byte) const {
  byte = std::min(byte, text_.size());
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), byte);
  const auto line = static_cast<std::size_t>(next - begins_.begin() - 1);
  std::size_t units = 0, at = begins_[line];
  const auto stop = std::upper_bound(stops_.begin(), stops_.end(), byte,
                                     [](std::size_t b, const Stop& s) { return b < s.byte; });
  if (stop != stops_.begin() && std::prev(stop)->byte > at) {
    at = std::prev(stop)->byte;
    units = std::prev(stop)->units;
  }
  while (at < byte) {
    const Step s = step(text_.substr(at, byte - at), utf8_);
    units += s.units;
    at += s.bytes;
  }
  return {{"line", line}, {"character", units}};
}

Json Lines::range(const assist::Span& span) const {
  return {{"start", position(span.begin)}, {"end", position(span.end)}};
}

assist::Span Lines::span(const Json& range) const {
  if (!range.is_object()) return {};
  const std::size_t begin = byte(range.value("start", Json())),
                    end = byte(range.value("end", Json()));
  return {begin, std::max(begin, end)};
}

}  // namespace sluice::lsp
