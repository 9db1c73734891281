// A network of a graph as an ONNX file: `sluice export`, and packages.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/onnx/export.h"
#include "tools/runtime/network.h"

namespace sluice {

// Images as the graph shows them to the network, in float32; logits.
onnx::ExportOptions export_options(const GraphNetwork& made);
// With what the file says of itself: the network, its weights' digest, what `run`'s graph does to
// images in front of it.
onnx::Exported write_onnx(const GraphNetwork& made, const std::string& run,
                          const std::filesystem::path& file, const onnx::ExportOptions& options);

}  // namespace sluice
