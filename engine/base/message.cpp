#include "engine/base/message.h"

#include <algorithm>
#include <iostream>
#include <mutex>
#include <utility>

#include "engine/base/message_listener.h"
#include "engine/base/utf8.h"

namespace sluice {

static bool is_control(std::uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

static void add_escaped(std::string& out, std::uint32_t code) {
  constexpr const char* digits = "0123456789abcdef";
  out += "\\x";
  for (const int shift : {4, 0}) out += digits[code >> shift & 15];
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
