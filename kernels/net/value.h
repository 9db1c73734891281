// What a network is written with: a Value flows, a Scope names, a number stands for all axes.
//
//   Value block(Scope s, Value x, std::int64_t out) {
//     Value y = relu(norm(s / "norm", conv(s / "conv", x, out, {.kernel = 3, .stride = 2})));
//     return y.op("gelu", [](In t) { return at::gelu(t[0]); });
//   }
//
// Invariant: a Value belongs to the Builder that made it, and is dead once that one has finished.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "kernels/net/init.h"
#include "kernels/net/step.h"

namespace sluice {

class Builder;

// One number for all spatial axes, or one for each.
class PerAxis {
 public:
  template <std::integral T>
  PerAxis(T one) : numbers_{static_cast<std::int64_t>(one)} {}
  PerAxis(std::vector<std::int64_t> numbers) : numbers_(std::move(numbers)) {}
  PerAxis(std::initializer_list<std::int64_t> numbers) : numbers_(numbers) {}
  std::vector<std::int64_t> over(int axes) const;
  bool is_one() const;  // on every axis

 private:
  std::vector<std::int64_t> numbers_;
};

// What an operation of LibTorch is given: its values, then its parameters.
using In = const std::vector<at::Tensor>&;
using TorchFunction = std::function<at::Tensor(In)>;
struct OpOptions;

struct Value {
  Builder* builder = nullptr;
  int id = 0;
  std::int64_t channels = 0;
  int axes = 0;         // spatial ones: [N, C, X, Y] has 2, [N, C] none
  bool tokens = false;  // [N, tokens, C]

  // Any function of LibTorch, differentiated by LibTorch. What it makes is like this value in
  // channels and axes, unless the options say otherwise.
  Value op(const std::string& kind, TorchFunction function) const;
  Value op(const std::string& kind, TorchFunction function, const OpOptions& options) const;
};
using Values = std::vector<Value>;

// Where in the network: what parameters' names begin with.
struct Scope {
  Builder* builder = nullptr;
  std::string name;
  Scope operator/(const std::string& part) const;
  Scope operator/(std::int64_t part) const { return *this / std::to_string(part); }
  // NAME.LEAF, a number by which the net knows it.
  int parameter(const std::string& leaf, std::vector<std::int64_t> shape, const Init& init,
                std::int64_t fan = 0) const;
  // `drawn_as`: it begins with standard normal draws, keyed by this name.
  int buffer(const std::string& leaf, at::Tensor tensor, const std::string& drawn_as = {}) const;
  // An error of whoever describes the network.
  [[noreturn]] void refuse(const std::string& why) const;
};

struct OpOptions {
  Values with;                  // further values, after the first
  std::vector<int> parameters;  // Scope::parameter's
  std::optional<std::int64_t> channels;
  std::optional<int> axes;
  std::optional<bool> tokens;
  std::string name;       // of the step
  Attributes attributes;  // for describe()
};

}  // namespace sluice
