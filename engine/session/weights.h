// A network's tensors from files.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/state/resource.h"
#include "engine/state/torch_file.h"

namespace sluice {

// "runs/x", "runs/x/checkpoints/epoch_3", a package's folder, "net.safetensors", or a file of
// torch.save(): all tensors, of the dictionary that is wanted; names that begin with `strip_prefix`
// without it; of nnU-Net's several names of a parameter one.
std::map<std::string, at::Tensor> read_weights(const std::filesystem::path& from,
                                               const WantedDictionary& wanted = {},
                                               const std::string& strip_prefix = "");

// Copies every tensor of the network from `tensors`, where it is called KEY or NAME.KEY; all must
// be there and fit. What is wrong is said with the first three names and what might have been
// meant.
void fill(Network& network, const std::string& name,
          const std::map<std::string, at::Tensor>& tensors, const std::string& from);

// What a network begins with. Of partial weights it says what was not there, did not fit or was not
// used; where no name is the network's, they begin the part of it whose names end like theirs
// ("vit." of a unetr). Throws where nothing fits.
void begin_with(Network& network, const std::string& name, const WeightsFile& from, bool quiet);

}  // namespace sluice
