// Weights as nnU-Net's checkpoint, which nnU-Net predicts with and trains on.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace sluice::nnunet {

// Writes a new `file`, TRAINER__PLANS__CONFIGURATION/fold_K/NAME.pth, in a folder that has
// plans.json and dataset.json. `tensors` are those of `from`; where that is a run or a checkpoint
// of one, the momenta and the number of epochs go with them. Throws where the plan's network does
// not take the tensors.
void write_checkpoint(const std::map<std::string, at::Tensor>& tensors,
                      const std::filesystem::path& from, const std::filesystem::path& file);

}  // namespace sluice::nnunet
