// Vector quantization: each voxel's channels become the nearest of a table's rows. In training the
// rows follow, by running means, what was assigned to them; the gradient passes as if nothing had
// happened. van den Oord et al. 2017; MONAI's EMAQuantizer.
#pragma once

#include "kernels/net/net.h"

namespace sluice {

struct QuantizeStep final : Step {
  int embedding = -1, cluster_size = -1, sums = -1;  // buffers: [rows, C], [rows], [rows, C]
  double decay = 0.99, epsilon = 1e-5;
  std::string kind() const override { return "quantize"; }
  Attributes attributes() const override { return {{"decay", decay}}; }
  std::vector<int> buffers() const override { return {embedding, cluster_size, sums}; }
  bool mixes_samples() const override { return true; }
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override { f.add_grad(inputs[0], grad); }

 private:
  void follow(const Frame& f, const at::Tensor& rows, const at::Tensor& nearest) const;
};

}  // namespace sluice
