// "1 epoch", "3 epochs".
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

// `many`: where it is not `one` and an "s".
inline std::string counted(std::int64_t n, const std::string& one, const std::string& many = "") {
  return std::to_string(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
}

}  // namespace sluice
