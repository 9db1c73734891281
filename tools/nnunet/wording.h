// Numbers as the reasons of a plan say them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace sluice::nnunet {

template <class... T>
std::string join(const T&... parts) {
  std::string text;
  (text.append(parts), ...);
  return text;
}

inline std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// "19.2 M"; fewer than 100,000 as they are.
inline std::string millions(double value) {
  if (value < 1e5) return number(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.1f M", value / 1e6);
  return text;
}

template <class T>
std::string list(const std::vector<T>& values, const char* between = ", ") {
  std::string text;
  for (const T value : values)
    text += (text.empty() ? "" : between) + number(static_cast<double>(value));
  return text;
}

// "40 x 56 x 40"
template <class T>
std::string extents(const std::vector<T>& values) {
  return list(values, " x ");
}

}  // namespace sluice::nnunet
