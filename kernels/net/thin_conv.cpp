#include "kernels/net/thin_conv.h"

#include <ATen/Functions.h>

#include "kernels/cuda/cuda_library.h"
#include "kernels/net/norm_act.h"
#include "kernels/net/thin_conv_call.h"

namespace sluice {
namespace {

using kernels::ThinConvCall;

// `x` is laid out with its channels last.
ThinConvCall call_of(const at::Tensor& x, std::int64_t depth) {
  ThinConvCall c;
  c.type = cuda_type(x);
  c.channels = static_cast<int>(x.size(1));
  c.depth = static_cast<int>(depth);
  c.batch = static_cast<std::uint32_t>(x.size(0));
  for (std::int64_t d = x.dim() - 1, to = 2; d >= 2; --d, --to)
    c.size[to] = static_cast<std::uint32_t>(x.size(d));
  c.x = x.const_data_ptr();
  return c;
}
std::int64_t depth_of(const at::Tensor& weight) { return weight.dim() == 5 ? weight.size(2) : 1; }

at::Tensor run(const at::Tensor& given, const at::Tensor& weight, const at::Tensor& bias,
               bool adjoint) {
  const at::Tensor x = given.to(weight.scalar_type()).contiguous(channels_last_of(given));
  ThinConvCall c = call_of(x, depth_of(weight));
  at::Tensor y = at::empty_like(x);
  c.weight = weight.const_data_ptr();
  if (bias.defined()) c.bias = bias.const_data_ptr<float>();
  c.adjoint = adjoint;
  c.y = y.mutable_data_ptr();
  const CudaCall cuda(x);
  cuda.require(cuda.table.thin_conv(c, cuda.stream));
  return y;
}

}  // namespace

bool thin_conv_fits(const ConvSpec& spec, const std::vector<std::int64_t>& size) {
  const std::size_t axes = spec.kernel.size();
  if (spec.transposed || spec.groups != 1 || axes < 2 || spec.in != spec.out ||
      spec.in > kernels::thin_most || c10::multiply_integers(size) >= std::int64_t{1} << 31)
    return false;
  for (std::size_t d = 0; d < axes; ++d) {
    const std::int64_t k = spec.kernel[d];
    const bool flat = axes == 3 && d == 0 && k == 1;
    if ((k != 3 && !flat) || spec.stride[d] != 1 || spec.padding[d] != k / 2) return false;
  }
  return true;
}

at::Tensor thin_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return run(x, weight, bias, false);
}

at::Tensor thin_conv_input_grad(const at::Tensor& grad, const at::Tensor& weight) {
  return run(grad, weight, {}, true);
}

at::Tensor thin_conv_weight_grad(const ConvSpec& spec, const at::Tensor& given,
                                 const at::Tensor& grad) {
  const auto layout = channels_last_of(given);
  const at::Tensor x = given.contiguous(layout), g = grad.to(x.scalar_type()).contiguous(layout);
  const ThinConvCall c = call_of(x, spec.kernel.size() == 3 ? spec.kernel[0] : 1);
  std::vector<std::int64_t> shape{spec.out, spec.in};
  shape.insert(shape.end(), spec.kernel.begin(), spec.kernel.end());
  at::Tensor out = at::empty(shape, x.options().dtype(at::kFloat));
  const CudaCall cuda(x);
  const at::Tensor workspace = cuda.memory(cuda.table.thin_conv_workspace(c));
  cuda.require(cuda.table.thin_conv_weight_grad(c, g.const_data_ptr(), workspace.data_ptr(),
                                                out.mutable_data_ptr<float>(), cuda.stream));
  return out;
}

}  // namespace sluice
