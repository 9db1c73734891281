// The graph that trains one configuration of a plan as nnU-Net trains it.
#pragma once

#include <string>

#include "tools/nnunet/planner.h"
#include "tools/runtime/nnunet/trained_model.h"

namespace sluice::nnunet {

// `probabilities`: validations keep them beside the labels, as CASE_probabilities.nii.gz, for
// ensembles of configurations. `model`: what read_model_folder() reads of the plans that are
// written beside the graph.
std::string training_graph(const Plans& plans, const Configuration& configuration,
                           const TrainedModel& model, std::int64_t folds, bool probabilities);

}  // namespace sluice::nnunet
