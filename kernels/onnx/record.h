// What a function of LibTorch does, operation by operation: LibTorch's own tracer watches it once
// for each size that its inputs may have. An integer that differs between those records depends on
// the size: operations.cpp looks for the extent that it is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/net/torch_step.h"
#include "kernels/onnx/lines.h"

namespace sluice::onnx {

// By record: by input of the step, its size. The first is the one that numbers are computed in.
using Sizes = std::vector<std::vector<Step::Size>>;

// A network cannot be written with extents that callers choose: its steps do other things with
// other sizes.
struct SizeBound : std::exception {
  std::string why;
  explicit SizeBound(std::string why) : why(std::move(why)) {}
  const char* what() const noexcept override { return why.c_str(); }
};

// The step as nodes; the name of its value. `inputs`: names of its values, `weights`: of its
// parameters, which are `values`. An Error names an operation that has no form in ONNX.
std::string write_function(Lines& lines, const TorchStep& step, const Lines::Names& inputs,
                           const Lines::Names& weights, const std::vector<at::Tensor>& values,
                           const Sizes& sizes);

}  // namespace sluice::onnx
