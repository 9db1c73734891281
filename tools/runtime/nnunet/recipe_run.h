// The runs of graphs that `sluice new segmentation --recipe nnunet` wrote, and where the folder
// with their plans is.
#pragma once

#include <filesystem>
#include <vector>

namespace sluice::nnunet {

bool is_recipe_run(const std::filesystem::path& at);

// TRAINER__PLANS__CONFIGURATION beside the run, beside the folder of its folds, or beside its
// graph. DataError: there is none, or there are several.
std::filesystem::path folder_of_run(const std::filesystem::path& at);

// The runs beside such a folder, as OUT/CONFIGURATION/each.json lists them.
std::vector<std::filesystem::path> runs_beside(const std::filesystem::path& folder);
// Those that a folder's each.json lists; without one there are none.
std::vector<std::filesystem::path> runs_listed_in(const std::filesystem::path& folder);

}  // namespace sluice::nnunet
