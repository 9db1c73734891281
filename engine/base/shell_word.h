// A command that a message proposes is copied into a shell: a name in it is one word there.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace sluice {

// As it is, or within '...' where a POSIX shell would read it otherwise.
inline std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("_-./+:,@%=#").find(static_cast<char>(c)) != std::string_view::npos;
  };
  bool plain = !word.empty() && word[0] != '#' && word[0] != '=';
  for (const char c : word) plain = plain && is_plain(static_cast<unsigned char>(c));
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace sluice
