// One character of UTF-8 text after the other.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

// 0 bytes long where the text does not begin with UTF-8.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};

// Of a text that is not empty.
inline Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char b = byte(0);
  if (b < 0x80) return {b, 1};
  const std::size_t n = b >= 0xF0 && b < 0xF5 ? 4 : b >= 0xE0 ? 3 : b >= 0xC2 ? 2 : 0;
  if (n == 0 || b >= 0xF5 || text.size() < n) return {};
  std::uint32_t code = b & (0xFF >> (n + 1));
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = code < (n == 4 ? 0x10000u : n == 3 ? 0x800u : 0x80u);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};  // surrogates
  return {code, n};
}

inline bool is_utf8(std::string_view text) {
  for (Character c; !text.empty(); text.remove_prefix(c.bytes))
    if (c = first_character(text); c.bytes == 0) return false;
  return true;
}

}  // namespace sluice
