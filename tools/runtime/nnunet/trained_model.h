// A trained model as nnU-Net keeps it:
//
//   TRAINER__PLANS__CONFIGURATION/plans.json, dataset.json, fold_K/checkpoint_final.pth
//
// or, without a fold_*, as the recipe leaves it: plans.json there, and the runs of the folds beside
// it, as CONFIGURATION/each.json lists them. One run of the recipe's graph is such a model, too, or
// a checkpoint of it, RUN/checkpoints/best: the folder with plans.json stands beside the run,
// beside the folder of its folds, or beside its graph. What --set changed in training counts
// (run_settings.h).
//
// Plans of nnU-Net 2.0 to 2.2, which name the network otherwise, are read too.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "tools/nnunet/dataset.h"

namespace sluice::nnunet {

struct TrainedModel {
  std::filesystem::path folder;
  std::string trainer, configuration;
  Json plans;  // as the file has them
  Dataset dataset;
  Json network;                                    // an entry of a graph's "models"
  std::vector<std::filesystem::path> checkpoints;  // of the folds, by number; or their runs
  std::string reader;                              // image_reader_writer: "SimpleITKIO"
  std::string previous;  // of a cascade: the configuration whose labels it takes beside the image
  bool dropout = false;  // the network has layers of dropout
  std::vector<std::int64_t> patch;  // axes as in the plan: transposed (z, y, x)
  std::vector<double> spacing;
  std::vector<std::int64_t> transpose;     // transpose_forward
  std::vector<std::int64_t> mirror_axes;   // of the patch's axes
  std::vector<std::string> normalization;  // "ZScoreNormalization"; by channel
  std::vector<bool> in_mask;               // use_mask_for_norm
  // Of runs: parameters of nodes that are otherwise than the plan's, by the nodes' names in
  // plan_nodes.cpp; null: it is left away.
  std::map<std::string, Json> changes;
  std::filesystem::path previous_runs;  // of a cascade's run: the folder whose labels it took
};

// Whether this names such a folder, one of its folds, a checkpoint in a fold, or a run of a
// recipe's graph or a checkpoint in it.
bool is_trained_model(const std::filesystem::path& path);

// All folds of a folder, or the one that is named, or the run. Throws DataError: what is missing, a
// network that is not known, folds of unlike plans.
TrainedModel read_trained_model(const std::filesystem::path& path);

// The mean of these runs of the recipe's graph, or checkpoints of them.
TrainedModel model_of_runs(const std::filesystem::path& folder,
                           std::vector<std::filesystem::path> runs);

// The folder alone, without folds: what a checkpoint is written for. "" is the configuration of
// the folder's name.
TrainedModel read_model_folder(const std::filesystem::path& folder,
                               const std::string& configuration = "");

}  // namespace sluice::nnunet
