// What the folds of one configuration predicted of their cases, and how it scores: the ground of
// post-processing, of the choice between configurations, and of the folds' report.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tools/nnunet/dataset.h"

namespace sluice::nnunet {

struct ValidatedCase {
  std::string name, run;  // "hippocampus_001", "fold=0"
  std::int64_t fold = 0;
  std::filesystem::path prediction, truth;      // label maps on one grid
  std::filesystem::path probabilities;          // of each output channel; empty: not kept
  std::vector<std::filesystem::path> images{};  // of the channels
};

// Labels that count as one: a class, or a region.
using Group = std::vector<std::int64_t>;

// 2 |P and T| / (|P| + |T|) of each group and case, [group][case]; NaN where neither has it.
using DiceTable = std::vector<std::vector<double>>;

// Of the runs below a folder (each.json), or of one run. DataError: no run of a graph with a node
// `nnunet` that validates and a save_image, predictions that are not there, two runs of one fold.
std::vector<ValidatedCase> validated_cases(const std::filesystem::path& folder);
// The data set of the runs.
Dataset dataset_of(const std::filesystem::path& folder);

// What is scored: the classes by number, or the regions as listed, without background and ignore.
std::vector<Group> foreground(const Dataset& dataset);
std::string name_of(const Dataset& dataset, const Group& group);

// Of predictions of which the largest components of `kept`, in this order, are kept alone.
// DataError where a prediction is of another shape than its truth.
DiceTable dice_of(const std::vector<ValidatedCase>& cases, const Dataset& dataset,
                  const std::vector<Group>& groups, const std::vector<Group>& kept = {});

// Of one label map [X, Y, Z]: what is of the group and not of its largest component becomes 0.
void keep_largest(at::Tensor& map, const Group& group);

// Means without what is not defined; of a table: over groups, of each one's over cases.
double mean(const std::vector<double>& values);
double foreground_mean(const DiceTable& table);
// Of a case, over the groups.
double case_mean(const DiceTable& table, std::size_t index);
// "0.9123", or "-" where it is not defined.
std::string number_of(double dice);

}  // namespace sluice::nnunet
