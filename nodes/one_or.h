// Lists that are one entry for all, or one for each: the check of their length, and its words.
#pragma once

#include <cstddef>
#include <string>

#include "engine/base/error.h"

namespace sluice {

// Refuses a list that has neither one entry nor `count`. `fault`: whose it is. Where `count` are a
// sample's axes, another sample may be as the list has it: then it is data that is wrong.
inline void require_one_or(const std::string& what, std::size_t found, std::size_t count,
                           Exit fault = Exit::usage) {
  if (found == 1 || found == count) return;
  const std::string why = what + " has one entry" +
                          (count == 1 ? "" : " or " + std::to_string(count)) + ", found " +
                          std::to_string(found);
  if (fault == Exit::data) throw DataError(why);
  throw Error(fault, why);
}

}  // namespace sluice
