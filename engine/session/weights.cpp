#include "engine/session/weights.h"

#include <ATen/core/grad_mode.h>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"

namespace sluice {

namespace fs = std::filesystem;

std::map<std::string, at::Tensor> read_weights(const fs::path& from) {
  if (fs::is_regular_file(from)) return read_safetensors(from);
  if (fs::is_directory(from / "checkpoints"))
    return load_checkpoint(newest_checkpoint(from / "checkpoints")).model;
  if (fs::is_directory(from)) return load_checkpoint(from).model;
  throw IoError(from.string() +
                ": no weights here: give a run folder, a checkpoint folder or a "
                ".safetensors file");
}

void fill(Network& network, const std::string& name,
          const std::map<std::string, at::Tensor>& tensors, const std::string& from) {
  at::NoGradGuard no_grad;
  auto all = network.parameters();
  for (auto& b : network.buffers()) all.push_back(b);
  for (auto& [key, tensor] : all) {
    auto it = tensors.find(name + "." + key);
    if (it == tensors.end()) it = tensors.find(key);
    if (it == tensors.end())
      throw Error(Exit::usage, from + ": no tensor \"" + key + "\" for network \"" + name + "\"");
    if (it->second.sizes() != tensor.sizes())
      throw Error(Exit::usage, from + ": \"" + key + "\" has another shape than network \"" + name +
                                   "\" declares");
    tensor.copy_(it->second);
  }
}

}  // namespace sluice
