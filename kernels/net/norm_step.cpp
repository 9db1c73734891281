#include "kernels/net/norm_step.h"

#include <ATen/ATen.h>

#include "engine/base/error.h"

namespace sluice {
namespace {

void add_activation(Attributes& all, const std::optional<double>& slope) {
  if (slope && *slope == 0) all.emplace_back("act", "relu");
  if (slope && *slope != 0) all.emplace_back("slope", *slope);
}

}  // namespace

// ---- norm and activation ------------------------------------------------------------------------

std::string NormActStep::kind() const {
  if (norm == Norm::none) return slope >= 0 ? "prelu" : "leaky_relu";
  if (norm == Norm::group) return "group_norm";
  return norm == Norm::batch ? "batch_norm" : "instance_norm";
}

Attributes NormActStep::attributes() const {
  Attributes all;
  if (norm == Norm::group) all.emplace_back("groups", groups);
  if (norm != Norm::none) all.emplace_back("eps", eps);
  if (norm == Norm::batch) all.emplace_back("momentum", momentum);
  if (norm != Norm::none && slope >= 0) all.emplace_back("act", "prelu");
  add_activation(all, fixed_slope);
  if (inputs.size() > 1) all.emplace_back("residual", true);
  return all;
}

std::vector<int> NormActStep::parameters() const {
  std::vector<int> all;
  for (const int p : {gamma, beta, slope, bias})
    if (p >= 0) all.push_back(p);
  return all;
}

std::vector<int> NormActStep::buffers() const {
  if (norm != Norm::batch) return {};
  return {running_mean, running_var, batches};
}

// Mean and rstd are constants.
bool NormActStep::is_frozen(const Frame& f) const {
  return norm == Norm::none || (norm == Norm::batch && !f.training);
}
// Channels with statistics in common.
int NormActStep::together(const at::Tensor& x) const {
  return norm == Norm::group ? static_cast<int>(x.size(1) / groups) : 1;
}

// Batch norm's running statistics, of what comes in without its convolution's bias.
NormStats NormActStep::running(const std::vector<at::Tensor>& weights,
                               const std::vector<at::Tensor>& buffers) const {
  const at::Tensor& mean = buffers[running_mean];
  return {(bias >= 0 ? mean - weights[bias] : mean).unsqueeze(0),
          buffers[running_var].unsqueeze(0)};
}
void NormActStep::normalise_by(NormAct& p, const NormStats& s) const {
  p.mean = s.mean.contiguous();
  p.rstd = (s.variance + eps).rsqrt_();
}

// As torch.nn.functional has it, in words of its own: what is normalised would be 0 whatever it is.
static void require_several(const NormActStep& s, std::int64_t values, const at::IntArrayRef& size,
                            const char* what) {
  if (values > 1) return;
  throw DataError(s.kind() + (s.name.empty() ? "" : " " + s.name) + " needs more than one " +
                  std::string(what) + ", got " + c10::str(size));
}

// Small work that passes without gradients need not do again: windows of a volume have many.
std::shared_ptr<const void> NormActStep::prepare(const Preparation& pass) const {
  // Of the whole batch, whatever part of it a frame has.
  if (const Size& size = pass.sizes[inputs[0]]; norm == Norm::group)
    require_several(*this, c10::multiply_integers(size) / groups, size, "value a group");
  if (norm != Norm::batch || pass.keep) return nullptr;
  auto p = std::make_shared<NormAct>();
  normalise_by(*p, running(pass.weights, pass.buffers));
  return p;
}

// The statistics x is normalised with; in training, batch norm's running ones follow them.
NormStats NormActStep::statistics(Frame& f, const at::Tensor& x) const {
  const std::int64_t values = x.numel() / x.size(1);  // of a channel
  if (norm == Norm::instance) {
    require_several(*this, values / x.size(0), x.sizes(), "voxel a sample");
    return norm_stats(x, true);
  }
  if (norm == Norm::group) return in_common(norm_stats(x, true), together(x));
  const auto& buffers = f.replica->buffers;
  if (!f.training) return running(f.replica->weights, buffers);
  require_several(*this, values, x.sizes(), "value a channel when training");
  NormStats s = norm_stats(x, false);
  if (!f.leads) return s;
  const auto n = static_cast<double>(values);
  const at::Tensor &mean = buffers[running_mean], &var = buffers[running_var];
  mean.lerp_(bias >= 0 ? s.mean[0] + f.weight(bias) : s.mean[0], momentum);
  var.lerp_(s.variance[0] * (n / (n - 1)), momentum);
  buffers[batches].add_(1);
  return s;
}

NormAct NormActStep::numbers(Frame& f, const at::Tensor& x) const {
  NormAct p;
  const auto options = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  if (norm == Norm::none) {
    p.mean = at::zeros({1, x.size(1)}, options);
    p.rstd = at::ones({1, x.size(1)}, options);
  } else if (const void* prepared = f.replica->prepared[number].get(); prepared && !f.training) {
    p = *static_cast<const NormAct*>(prepared);
  } else {
    normalise_by(p, statistics(f, x));
  }
  p.frozen = is_frozen(f);
  if (gamma >= 0) {
    p.gamma = f.weight(gamma);
    p.beta = f.weight(beta);
  }
  if (slope >= 0)
    p.slope = f.weight(slope);
  else if (fixed_slope)
    p.slope = at::full({1}, *fixed_slope, options);
  return p;
}

NormAct NormActStep::saved_numbers(const Frame& f, const at::Tensor& x) const {
  const auto& saved = f.saved[number];
  NormAct p{saved[0], saved[1], {}, {}, saved[2], is_frozen(f), together(x)};
  if (gamma >= 0) {
    p.gamma = f.weight(gamma);
    p.beta = f.weight(beta);
  }
  return p;
}

at::Tensor NormActStep::forward(Frame& f) const {
  const at::Tensor& x = f.values[inputs[0]];
  // Made again: with the statistics of the first time.
  const bool again = f.keep && !f.saved[number].empty();
  const NormAct p = again ? saved_numbers(f, x) : numbers(f, x);
  if (f.keep) f.saved[number] = {p.mean, p.rstd, p.slope};
  return norm_act(x, p, inputs.size() > 1 ? f.values[inputs[1]] : at::Tensor());
}

void NormActStep::backward(Frame& f, const at::Tensor& grad) const {
  const at::Tensor& x = f.values[inputs[0]];
  const NormAct p = saved_numbers(f, x);
  const NormActGrad g = norm_act_backward(grad, x, p);
  f.add_grad(inputs[0], g.input);
  if (slope >= 0) f.add_parameter_grad(slope, g.slope);
  if (gamma >= 0) {
    f.add_parameter_grad(gamma, g.gamma);
    f.add_parameter_grad(beta, g.beta);
  }
  // With running statistics nothing takes the convolution's bias away again.
  if (p.frozen && bias >= 0 && f.trains[bias]) f.add_parameter_grad(bias, channel_sums(g.input));
  if (inputs.size() > 1) f.add_grad(inputs[1], grad);
}

}  // namespace sluice
