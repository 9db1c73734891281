// How long ago something was, by a clock that nobody sets.
#pragma once

#include <chrono>

namespace sluice {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace sluice
