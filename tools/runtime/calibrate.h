// `sluice calibrate`: the scales with which a network's convolutions compute in 8 bits.
#pragma once

#include <filesystem>
#include <string>

#include "engine/base/json.h"
#include "kernels/onnx/quantize.h"

namespace sluice {

// {"graph", "net", "weights", "samples": of each source, "method", "asymmetric", "set",
// "step_threads", "out": a file}: runs the graph with the network in float32 and writes what its
// convolutions read.
int calibrate_command(const Json& request);

// Refuses scales of a network with other weights.
onnx::Scales read_scales(const std::filesystem::path& file, const std::string& weights_sha256);

}  // namespace sluice
