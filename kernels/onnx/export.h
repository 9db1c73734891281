// A network as a model in the ONNX format: its own steps word by word, what it asks of LibTorch
// operation by operation. Written as it computes after training: dropout is gone, batch norm with
// its running statistics stands in the convolution upstream of it where nothing else reads that.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/net/net.h"
#include "kernels/onnx/model.h"
#include "kernels/onnx/quantize.h"

namespace sluice::onnx {

struct ExportOptions {
  std::int64_t channels = 1;          // of each input
  std::vector<std::int64_t> extents;  // of an image that fits: [X, Y] or [X, Y, Z]
  Type real = Type::float32;          // or float16: inputs and outputs stay float32
  std::string head = "logits";        // or softmax, sigmoid, argmax, of the first output
  std::size_t outputs = 1;            // the first so many
  bool fold = true;                   // batch norm
  // Convolutions compute with 8 bits: their inputs and weights are rounded to them (QuantizeLinear,
  // DequantizeLinear). A convolution without a scale is refused.
  std::optional<Scales> scales;
  // Whether images of these extents fit; without it, all do.
  std::function<bool(const std::vector<std::int64_t>&)> fits;
};

struct Exported {
  Model model;
  std::int64_t parameters = 0;
  bool any_batch = true, any_extents = true;  // callers choose them
  std::string bound_by;                       // why they do not
};

// Throws Error(usage) where a step has no form in ONNX.
Exported exported(const Net& net, const ExportOptions& options);

}  // namespace sluice::onnx
