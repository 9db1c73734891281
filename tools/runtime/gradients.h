// Gradients of one node's outputs to its fields, for `sluice apply`: from LibTorch's tape, and held
// against central differences.
//
//   input  = with_tape(input, names);  output = fire(input);
//   dL/dname = gradients(...)          L = sum over outputs of grad * out
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/state/sample.h"

namespace sluice {

using NamedTensors = std::map<std::string, at::Tensor>;

// Fields of floating-point numbers: those that may have a gradient.
std::vector<std::string> differentiable(const Sample& input);

// The sample with these fields on the tape. An Error of usage where one is none of
// `differentiable`.
Sample with_tape(const Sample& input, const std::vector<std::string>& names);

// dL/dname for each name. No `grads`: 1, where the node has one output of one element. An Error of
// usage where nothing depends on one of `needed`.
NamedTensors gradients(const Sample& input, const Sample& output, const NamedTensors& grads,
                       const std::vector<std::string>& names,
                       const std::vector<std::string>& needed = {});

// The sum of what came out times its gradient in `grads`.
double weighted_sum(const Sample& input, const Sample& output, const NamedTensors& grads);

// Central differences of `loss`, with one tensor of `at` (float64) moved, beside the gradients
// there: of each tensor the largest difference, relative to its gradient's largest value. At most
// about `most` elements of a tensor are tried.
std::map<std::string, double> against_differences(
    const NamedTensors& at, const NamedTensors& analytic,
    const std::function<double(const std::string&, const at::Tensor&)>& loss, std::int64_t most);

// The largest difference from central differences in float64 for each name, relative to the
// gradient's largest value. At most `most` elements of a field are tried.
std::map<std::string, double> check_gradients(const std::function<Sample(const Sample&)>& fire,
                                              const Sample& input, const NamedTensors& grads,
                                              const std::vector<std::string>& names,
                                              std::int64_t most = 500);

}  // namespace sluice
