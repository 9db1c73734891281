// What a model's nodes are written with: an operator's inputs by name, its output's name as the
// answer; constants, each once.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/onnx/model.h"

namespace sluice::onnx {

class Lines {
 public:
  // `real`: what numbers are computed in, float32 or float16.
  explicit Lines(Type real) : real(real) {}
  const Type real;
  Model model;

  using Names = std::vector<std::string>;
  std::string add(const std::string& op, const Names& inputs, Attributes attributes = {});
  Names add(const std::string& op, const Names& inputs, Attributes attributes, std::size_t outputs);
  // What nodes are called from here on: SCOPE/OP; values are numbered.
  void enter(const std::string& scope) { scope_ = scope; }

  // A tensor of the file, under this name; real numbers as `real`, or as `as`.
  std::string tensor(const std::string& name, const at::Tensor& t);
  std::string tensor(const std::string& name, const at::Tensor& t, Type as);
  // Constants: a list of whole numbers, and one real number.
  std::string ints(const std::vector<std::int64_t>& numbers);
  std::string number(double value);
  std::string constant(const at::Tensor& t);
  std::string cast(const std::string& x, Type to);

  // x normalised over all but its first two axes, in float32 whatever the rest is computed in;
  // scale and bias [C].
  std::string instance_norm(const std::string& x, const at::Tensor& scale, const at::Tensor& bias,
                            double eps);

 private:
  std::string scope_;
  std::map<std::string, std::string> constants_;  // by type, size and bytes
  std::size_t values_ = 0;
};

Type type_of(const at::Tensor& t, Type real);
// Padding as ONNX wants it: in front along each axis, then behind.
std::vector<std::int64_t> both_ends(const std::vector<std::int64_t>& pads);

}  // namespace sluice::onnx
