// Safetensors on open files, for those who also want the digest of what went through.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "engine/base/durable_file.h"

namespace sluice {

using Tensors = std::map<std::string, at::Tensor>;

void write_tensors(File& file, const Tensors& tensors);
// `name` stands in messages.
Tensors read_tensors(File& file, const std::string& name);

}  // namespace sluice
