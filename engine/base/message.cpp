#include "engine/base/message.h"

#include <algorithm>
#include <iostream>
#include <mutex>
#include <utility>

#include "engine/base/message_listener.h"
#include "engine/base/utf8.h"

namespace sluice {

// Control characters, and what ends a line or turns the direction of the text behind it around.
static bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E ||
         code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

// \x1b, or \u202e.
static void add_escaped(std::string& out, std::uint32_t code) {
  constexpr const char* digits = "0123456789abcdef";
  out += code > 0xFF ? "\\u" : "\\x";
  for (int shift = code > 0xFF ? 12 : 4; shift >= 0; shift -= 4) out += digits[code >> shift & 15];
}

std::string printable(std::string_view text, bool lines) {
  std::string out;
  while (!text.empty()) {
    const Character c = first_character(text);
    const bool kept = lines && (c.code == '\n' || c.code == '\t');
    if (c.bytes == 0)
      add_escaped(out, static_cast<unsigned char>(text.front()));
    else if (is_control(c.code) && !kept)
      add_escaped(out, c.code);
    else
      out += text.substr(0, c.bytes);
    text.remove_prefix(std::max<std::size_t>(c.bytes, 1));
  }
  return out;
}

static std::mutex listening;
static std::function<void(const std::string&)> listener;

void tell(std::string_view text) {
  std::string whole = printable(text, true);
  if (!whole.ends_with('\n')) whole += '\n';
  std::lock_guard lock(listening);
  if (listener)
    listener(whole);
  else
    std::cerr << whole << std::flush;
}

void tell_to(std::function<void(const std::string&)> to) {
  std::lock_guard lock(listening);
  listener = std::move(to);
}

}  // namespace sluice
