// What is said of a checkpoint that is missing.
#pragma once

#include <string>

#include "engine/base/cause.h"

namespace sluice {

inline std::string not_written(const std::string& checkpoint, const Cause& why) {
  return "checkpoint " + checkpoint + " was not written: " + why.text;
}

}  // namespace sluice
