// The graph that trains one configuration of a plan as nnU-Net trains it.
#pragma once

#include <string>

#include "tools/nnunet/planner.h"
#include "tools/runtime/nnunet/trained_model.h"

namespace sluice::nnunet {

// "0,1,2", what vars.fold may be; "-1" where there is no fold.
std::string fold_numbers(std::int64_t folds);

// `probabilities`: validations keep them beside the labels, as CASE_probabilities.nii.gz, for
// ensembles of configurations. `model`: what read_model_folder() reads of the plans that are
// written beside the graph. `folds`: 0 of one case alone, which is nnU-Net's fold "all".
std::string training_graph(const Plans& plans, const Configuration& configuration,
                           const TrainedModel& model, std::int64_t folds, bool probabilities);

}  // namespace sluice::nnunet
