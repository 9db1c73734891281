// `sluice new postprocessing DIR`: which largest components to keep, found on the validations of
// all folds as nnU-Net finds it, and the graph that keeps them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/runtime/nnunet/cross_validation.h"
#include "tools/runtime/nnunet/plan_nodes.h"

namespace sluice::nnunet {

struct Postprocessing {
  std::vector<Group> groups;  // that are scored: the data set's foreground
  std::vector<Group> kept;    // of each of these, in this order, the largest component alone
  DiceTable before, after;
};

// nnU-Net's rule: the foreground as a whole where the mean rises and no group falls, then each
// group whose own mean rises.
Postprocessing find_postprocessing(const std::vector<ValidatedCase>& cases, const Dataset& dataset);

// The nodes that keep the largest components alone, of "pred".
void add_postprocessing(NodeList& nodes, const Dataset& dataset, const std::vector<Group>& kept);

// A table for people: each group's Dice, by run and over all, before and after; the worst cases.
std::string postprocessing_text(const std::vector<ValidatedCase>& cases, const Postprocessing& p);
// Reads a folder of segmentations and writes them as the rule says.
std::string postprocessing_graph(const std::filesystem::path& folder, const Dataset& dataset,
                                 const std::vector<ValidatedCase>& cases, const Postprocessing& p);

}  // namespace sluice::nnunet
