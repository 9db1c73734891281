// Steps that draw: dropout of numbers, of whole channels, of whole samples; normal numbers.
//
// Invariant: a draw is a pure function of the pass's key, the sample and the place in it.
#pragma once

#include "kernels/net/dropout_value.h"
#include "kernels/net/net.h"

namespace sluice {

struct DropoutStep final : Step {
  double p = 0;
  std::string kind() const override { return "dropout"; }
  Attributes attributes() const override { return {{"p", p}}; }
  bool draws() const override { return true; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  kernels::DropoutRule rule(const Frame& f) const;
};

struct MaskStep final : Step {
  enum class Of { channel, sample } of = Of::channel;
  double p = 0;
  std::uint64_t stream = 0;  // of channels
  std::string kind() const override {
    return of == Of::channel ? "dropout_channels" : "dropout_samples";
  }
  Attributes attributes() const override { return {{"p", p}}; }
  bool draws() const override { return true; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// `count` of its tokens' numbers for each sample, all equally likely, in no order: [N, count].
struct ChoiceStep final : Step {
  std::int64_t count = 0;
  std::string kind() const override { return "choice"; }
  Attributes attributes() const override { return {{"count", count}}; }
  bool draws() const override { return true; }
  Size output_size(const std::vector<Size>& in) const override { return {in[0][0], count}; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& /*f*/, const at::Tensor& /*grad*/) const override {}
};

// Numbers of its input's size from the standard normal distribution; `at_rest` outside training.
struct NormalStep final : Step {
  double at_rest = 0;
  std::string kind() const override { return "normal"; }
  bool draws() const override { return true; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& /*f*/, const at::Tensor& /*grad*/) const override {}
};

}  // namespace sluice
