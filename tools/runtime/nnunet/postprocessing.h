// `sluice new postprocessing DIR`: which largest components to keep, found on the validations of
// all folds as nnU-Net finds it, and the graph that keeps them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/nnunet/dataset.h"

namespace sluice::nnunet {

struct ValidatedCase {
  std::string name, run;                    // "hippocampus_001", "fold=0"
  std::filesystem::path prediction, truth;  // label maps on one grid
};

// Labels that count as one: a class, or a region.
using Group = std::vector<std::int64_t>;

// 2 |P and T| / (|P| + |T|) of each group and case, [group][case]; NaN where neither has it.
using DiceTable = std::vector<std::vector<double>>;

struct Postprocessing {
  std::vector<Group> groups;  // that are scored: the data set's foreground
  std::vector<Group> kept;    // of each of these, in this order, the largest component alone
  DiceTable before, after;
};

// nnU-Net's rule: the foreground as a whole where the mean rises and no group falls, then each
// group whose own mean rises.
Postprocessing find_postprocessing(const std::vector<ValidatedCase>& cases, const Dataset& dataset);

// Of the runs below a folder (each.json), or of one run. DataError: no run of a graph with a node
// `nnunet` that validates and a save_image, predictions that are not there, two runs of one fold.
std::vector<ValidatedCase> validated_cases(const std::filesystem::path& folder);
// The data set of the runs.
Dataset dataset_of(const std::filesystem::path& folder);

// A table for people: each group's Dice, by run and over all, before and after; the worst cases.
std::string postprocessing_text(const std::vector<ValidatedCase>& cases, const Postprocessing& p);
// Reads a folder of segmentations and writes them as the rule says.
std::string postprocessing_graph(const std::filesystem::path& folder, const Dataset& dataset,
                                 const std::vector<ValidatedCase>& cases, const Postprocessing& p);

}  // namespace sluice::nnunet
