// A linear layer over the last axis: of vectors [N, C] and of tokens [N, T, C].
#pragma once

#include "kernels/net/net.h"

namespace sluice {

struct LinearStep final : Step {
  std::int64_t in = 1, out = 1;
  int weight = -1, bias = -1;  // parameters; bias: -1 for none
  std::string kind() const override { return "linear"; }
  Attributes attributes() const override { return {{"out", out}, {"bias", bias >= 0}}; }
  std::vector<int> parameters() const override;
  Size output_size(const std::vector<Size>& of) const override {
    Size size = of[0];
    size.back() = out;
    return size;
  }
  Product product(const Size& input) const override {
    std::int64_t numbers = 1;
    for (const std::int64_t n : input) numbers *= n;
    return {static_cast<double>(numbers * out), in, out};
  }
  std::shared_ptr<const void> prepare(const Preparation& pass) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  at::Tensor matrix(const Frame& f, at::ScalarType type) const;
};

}  // namespace sluice
