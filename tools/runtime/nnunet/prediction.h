// The graph that predicts with models of nnU-Net's as nnU-Net does: with one, with a cascade's two
// stages, with the mean of several configurations' probabilities.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/runtime/nnunet/cross_validation.h"
#include "tools/runtime/nnunet/trained_model.h"

namespace sluice::nnunet {

// Of a folder with CASE_0000.nii.gz, CASE_0001.nii.gz, ..., or one that has such in imagesTs; "" is
// one that is named when the graph runs. `kept`: labels of which the largest component is kept
// alone. DataError: no such files, cases whose channels are not the models', models of other
// labels, a cascade without the stage before beside it.
std::string prediction_graph(const std::filesystem::path& images,
                             const std::vector<TrainedModel>& models,
                             const std::vector<Group>& kept = {});

}  // namespace sluice::nnunet
