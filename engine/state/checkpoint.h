// A checkpoint is one folder: `model.safetensors`, `optimizer.safetensors`, `state.json`.
//
// Invariant: a reader sees the old checkpoint or the new one, never a part. It is written under a
// temporary name in the same folder, every file and the folder are fsynced, then renamed; a
// checksum of each tensor file stands in state.json and is verified on loading.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "engine/graph/spec.h"

namespace sluice {

// What a node saves and loads: tensors and plain values by name.
struct State {
  std::map<std::string, at::Tensor> tensors;
  Json values = Json::object();
};

// safetensors: 8 bytes of header length, a JSON header, the tensors' bytes.
// Refuses (DataError) any header whose offsets, shapes or lengths do not fit exactly.
void write_safetensors(const std::filesystem::path& file,
                       const std::map<std::string, at::Tensor>& tensors);
std::map<std::string, at::Tensor> read_safetensors(const std::filesystem::path& file);

struct Checkpoint {
  std::map<std::string, at::Tensor> model;      // "net.model.0.conv.unit0.conv.weight"
  std::map<std::string, at::Tensor> optimizer;  // "step.exp_avg.<parameter>"
  Json state = Json::object();                  // position, node values, seed, run's id, ...
};

// Writes `folder/name` atomically; throws IoError (disk full, no rights) and then leaves no trace.
void save_checkpoint(const std::filesystem::path& folder, const std::string& name,
                     const Checkpoint& checkpoint);
Checkpoint load_checkpoint(const std::filesystem::path& checkpoint);
// The newest complete checkpoint in a run's `checkpoints` folder; throws IoError if there is none.
// One that is damaged is passed over, and `warn` (without one: stderr) is told.
std::filesystem::path newest_checkpoint(const std::filesystem::path& folder,
                                        const std::function<void(const std::string&)>& warn = {});
// The same of the checkpoints whose state says that they are of this run; nullopt where the folder
// holds no checkpoint of it, not even a damaged one.
std::optional<std::filesystem::path> newest_checkpoint_of(
    const std::string& run, const std::filesystem::path& folder,
    const std::function<void(const std::string&)>& warn = {});

// Hexadecimal SHA-256 over, for each tensor in name order, its name, a zero byte and its
// contiguous bytes.
std::string weights_sha256(const std::map<std::string, at::Tensor>& tensors);
std::string sha256_of(const std::string& text);

}  // namespace sluice
