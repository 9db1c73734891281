// A line's text without the blanks around it.
#pragma once

#include <string>

namespace sluice {

inline std::string trimmed(const std::string& text) {
  constexpr const char* blanks = " \t\r";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace sluice
