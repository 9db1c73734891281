// Weights that PyTorch saved: a state_dict, or one within the dictionaries of MONAI, Lightning or
// nnU-Net, of torch.save() since 1.6 (a zip archive) and before (pickles one after the other).
//
// Invariant: nothing that a file asks for is run. A file is read as a whole or refused; contents of
// an archive are held against its checksums. The older form has none.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "engine/base/json.h"

namespace sluice {

bool is_torch_file(const std::filesystem::path& file);

struct WantedDictionary {
  std::string key;                         // "state_dict", "network_weights", "a.b"
  std::string option = "\"weights_key\"";  // what names it: of a graph, or a command's "--key"
};

// The tensors of a dictionary; without a key, of the file's own, or of the only dictionary in it
// with tensors that is no optimizer's. Throws DataError, with the keys that there are.
std::map<std::string, at::Tensor> read_torch_file(const std::filesystem::path& file,
                                                  const WantedDictionary& wanted = {});

// The plain values in such an archive: its dictionaries by name, lists, numbers, text and NumPy's
// arrays of numbers as lists of their rows; null where something else stands.
Json read_torch_values(const std::filesystem::path& file);

}  // namespace sluice
