// `sluice export`: a run's network as a file that other engines read.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"run": a run's folder or a graph, "net", "weights", "out", "precision", "head", "size": [],
// "outputs", "check", "json"}: writes an ONNX file. With "check", the file is asked through ONNX
// Runtime where there is one, and held against this build's own forward pass.
int export_command(const Json& request);

}  // namespace sluice
