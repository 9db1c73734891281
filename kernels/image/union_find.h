// Sets of numbers that are united one pair after the other. A set is called by its least number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

inline std::int32_t root(std::vector<std::int32_t>& parent, std::int32_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

// The smaller root stays, so a component is numbered by its first run.
inline void unite(std::vector<std::int32_t>& parent, std::int32_t a, std::int32_t b) {
  a = root(parent, a), b = root(parent, b);
  parent[std::max(a, b)] = std::min(a, b);
}

}  // namespace sluice
