// The numbers of a starter graph, each by a rule that the graph states beside it.
//
// Invariant: a pure function of the survey: the same folder gives the same graph on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/runtime/new/survey.h"

namespace sluice {

inline constexpr double cache_limit_gib = 4;  // prepared volumes up to this are kept in memory

struct Recipe {
  Vec3 spacing{};
  Shape3 patch{};
  std::vector<Shape3> strides;         // one a level
  std::vector<std::int64_t> channels;  // one more
  std::int64_t classes = 2;
  bool binarise = false;  // the labels are 0 and one other value that is not 1
  std::int64_t num_samples = 2, batch = 4, epochs = 30, validate_every = 1;
  bool flips = true;          // left and right may be exchanged
  bool caches = true;         // the prepared volumes fit into memory
  double cache_gib = 0;       // what they take
  std::string normalisation;  // the node's text without its "in" and "keys"
  std::string normalisation_why;
};

// DataError where no graph can be right: labels that are no classes, volumes of one slice.
Recipe make_recipe(const Survey& survey, bool with_labels);

}  // namespace sluice
