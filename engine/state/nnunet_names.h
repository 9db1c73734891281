// A checkpoint of nnU-Net names each parameter of its networks up to four times:
//
//   encoder.stages.0.0.convs.0.conv.weight            the one name, that of our networks
//   encoder.stages.0.0.convs.0.all_modules.0.weight   the block's list of layers
//   decoder.encoder.stages.0...                       the encoder, as a part of the decoder
//
// Invariant: repeats are left out only where they hold the same numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace sluice {

// The one name of a parameter of nnU-Net's.
std::string nnunet_name(std::string name);
// Every name that nnU-Net's state_dict has for it, the one name first. `norm`: a norm's place in
// the list of layers; 2 behind dropout.
std::vector<std::string> nnunet_names(const std::string& name, int norm = 1);

// Leaves each parameter its one name. Other programs' tensors stay as they are. Throws DataError
// where repeats differ; `file` begins the message.
void leave_out_repeats(std::map<std::string, at::Tensor>& tensors, const std::string& file);

}  // namespace sluice
