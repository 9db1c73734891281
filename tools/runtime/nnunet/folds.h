// What `sluice report` says of all folds of a configuration.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"folder": with each.json, "out": a folder that is there}. Writes folds.json into it and, of the
// worst cases, slices as PNG files:
//
//   {"name", "groups": ["liver", ...], "kept": ["the foreground", ...],
//    "cases": [{"name", "run", "before": [Dice of each group, or null], "after": [...]}],
//    "pictures": [{"case": its index, "file", "slice", "classes", "colors"}]}
//
// Cases stand from the worst to the best, after post-processing. DataError as validated_cases().
int folds_command(const Json& request);

}  // namespace sluice
