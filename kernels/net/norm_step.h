// Normalisation, with the activation and the residual that one pass over memory does as well.
#pragma once

#include <optional>

#include "kernels/net/net.h"
#include "kernels/net/norm_act.h"

namespace sluice {

enum class Norm { none, instance, batch, group };

// Instance, batch or group norm, activation and residual (inputs[1]), each optional.
struct NormActStep final : Step {
  Norm norm = Norm::none;
  std::int64_t groups = 1;  // of group norm
  double eps = 1e-5, momentum = 0.1;
  int gamma = -1, beta = -1, slope = -1;  // parameters
  int bias = -1;                          // of the convolution upstream, left out there
  std::optional<double> fixed_slope;      // u > 0 ? u : slope * u, without a parameter
  int running_mean = -1, running_var = -1, batches = -1;  // buffers
  bool activates() const { return slope >= 0 || fixed_slope; }
  std::string kind() const override;
  Attributes attributes() const override;
  std::vector<int> parameters() const override;
  std::vector<int> buffers() const override;
  Layout layout() const override { return Layout::channels_last; }
  bool mixes_samples() const override { return norm == Norm::batch; }
  bool shares_grad(std::size_t input) const override { return input == 1; }
  std::shared_ptr<const void> prepare(const Preparation& pass) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;

 private:
  bool is_frozen(const Frame& f) const;
  int together(const at::Tensor& x) const;
  NormAct numbers(Frame& f, const at::Tensor& x) const;
  NormAct saved_numbers(const Frame& f, const at::Tensor& x) const;
  NormStats statistics(Frame& f, const at::Tensor& x) const;
  NormStats running(const std::vector<at::Tensor>& weights,
                    const std::vector<at::Tensor>& buffers) const;
  void normalise_by(NormAct& p, const NormStats& s) const;
};

}  // namespace sluice
