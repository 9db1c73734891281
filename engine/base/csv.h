// Text in CSV files.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// A text as one field, as RFC 4180 has it: in quotes where it holds a separator, a quote or a
// line's end.
inline std::string csv_field(const std::string& text, std::string_view separator = ",") {
  const bool plain = text.find_first_of("\"\r\n") == std::string::npos &&
                     (separator.empty() || text.find(separator) == std::string::npos);
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

}  // namespace sluice
