// `sluice new best_configuration DIR`: which of a plan's configurations, or which two of them
// together, do best in the cross-validation, chosen as nnUNetv2_find_best_configuration chooses:
//
//   DIR/nnUNetTrainer__nnUNetPlans__3d_fullres/plans.json     what `new --recipe nnunet` wrote
//   DIR/3d_fullres/each.json, fold=0/validation/...           what `run --each vars.fold=...` left
//
// The highest mean foreground Dice over the pooled cases of all folds wins, of equal ones the
// first: 2d, 3d_fullres, 3d_lowres, 3d_cascade_fullres, then pairs. Post-processing is found on the
// winner's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/runtime/nnunet/postprocessing.h"
#include "tools/runtime/nnunet/trained_model.h"

namespace sluice::nnunet {

struct Candidate {
  std::string name;  // nnU-Net's: "nnUNetTrainer__nnUNetPlans__2d", "ensemble___..."
  std::vector<TrainedModel> models;  // one, or two whose probabilities are averaged
  std::vector<ValidatedCase> cases;  // of all folds
  double dice = 0;                   // mean over the foreground's groups
};

struct BestConfiguration {
  Dataset dataset;
  std::vector<Candidate> candidates;
  std::size_t best = 0;
  Postprocessing postprocessing;      // of the best
  std::vector<std::string> left_out;  // what was not tried, and why

  const Candidate& chosen() const { return candidates[best]; }
};

// Ensembles' labels are written below `ensembles`, a folder each. DataError: no configuration was
// trained, a fold that has not been validated as a whole, configurations of other cases.
BestConfiguration find_best_configuration(const std::filesystem::path& folder,
                                          const std::filesystem::path& ensembles);

std::string best_configuration_text(const BestConfiguration& found);
// nnU-Net's inference_information.json, with the components that are kept in place of a pickle.
Json inference_information(const BestConfiguration& found);

}  // namespace sluice::nnunet
