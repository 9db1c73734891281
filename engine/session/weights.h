// A network's tensors from files.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "engine/state/resource.h"

namespace sluice {

// "runs/x", "runs/x/checkpoints/epoch_3" or "net.safetensors": the tensors of one network.
std::map<std::string, at::Tensor> read_weights(const std::filesystem::path& from);

// Copies every tensor of the network from `tensors`; all must be there and fit.
void fill(Network& network, const std::string& name,
          const std::map<std::string, at::Tensor>& tensors, const std::string& from);

}  // namespace sluice
