// Large numbers for people, with three digits: 27.6 k, 12.4 M, 0.477 G.
#pragma once

#include <fmt/format.h>

#include <string>

namespace sluice {

inline std::string amount(double n) {
  if (n >= 999.5e9) return fmt::format("{:.3g} T", n / 1e12);
  if (n >= 1e8) return fmt::format("{:.3g} G", n / 1e9);
  return n >= 1e5 ? fmt::format("{:.3g} M", n / 1e6) : fmt::format("{:.3g} k", n / 1e3);
}

}  // namespace sluice
