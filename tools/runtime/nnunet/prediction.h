// The graph that predicts with a model of nnU-Net's as nnU-Net does.
#pragma once

#include <filesystem>
#include <string>

#include "tools/runtime/nnunet/trained_model.h"

namespace sluice::nnunet {

// Of a folder with CASE_0000.nii.gz, CASE_0001.nii.gz, ..., or one that has such in imagesTs.
// DataError: no such files, or cases whose channels are not the model's.
std::string prediction_graph(const std::filesystem::path& images, const TrainedModel& model);

}  // namespace sluice::nnunet
