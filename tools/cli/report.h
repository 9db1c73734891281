// What a run folder says, as one JSON document for the report's script.
//
// Invariant: a folder is taken as it is found: whatever is missing, cut short or not what it should
// be is left out and said in "missing"; nothing outside of the folder is read.
#pragma once

#include <filesystem>
#include <optional>

#include "engine/plan/plan.h"

namespace sluice::cli {

// `plan`: of the folder's graph.json, where it could be made. Throws IoError where the folder holds
// nothing of a run.
Json report_data(const std::filesystem::path& folder, const std::optional<Plan>& plan);

// The same of the folds of one configuration, whose runs a folder's each.json lists. `work`: a
// folder in which the runtime leaves what it found. An Error says what it could not read.
Json folds_data(const std::filesystem::path& folder, const std::filesystem::path& work);

}  // namespace sluice::cli
