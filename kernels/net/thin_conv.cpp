#include "kernels/net/thin_conv.h"

#include <ATen/Functions.h>

#include "kernels/cuda/cuda_library.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/norm_act.h"
#include "kernels/net/thin_conv_call.h"

namespace sluice {
namespace {

using kernels::ThinConvCall;

// `x` is laid out with its channels last.
ThinConvCall call_of(const ConvSpec& spec, const at::Tensor& x) {
  ThinConvCall c;
  c.type = cuda_type(x);
  c.channels = static_cast<int>(x.size(1));
  c.depth = static_cast<int>(three(spec.kernel, 1)[0]);
  c.batch = static_cast<std::uint32_t>(x.size(0));
  const Size3 size = spatial(x);
  for (int d = 0; d < 3; ++d) c.size[d] = static_cast<std::uint32_t>(size[d]);
  c.x = x.const_data_ptr();
  return c;
}

at::Tensor run(const ConvSpec& spec, const at::Tensor& given, const at::Tensor& weight,
               const at::Tensor& bias, bool adjoint) {
  const at::Tensor x = given.to(weight.scalar_type()).contiguous(channels_last_of(given));
  ThinConvCall c = call_of(spec, x);
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
  if (spec.transposed || spec.groups != 1 || is_dilated(spec) || axes < 2 || spec.in != spec.out ||
      spec.in > kernels::thin_most || c10::multiply_integers(size) >= std::int64_t{1} << 31)
    return false;
  for (std::size_t d = 0; d < axes; ++d) {
    const std::int64_t k = spec.kernel[d];
    const bool flat = axes == 3 && d == 0 && k == 1;
    if ((k != 3 && !flat) || spec.stride[d] != 1 || spec.padding[d] != k / 2) return false;
  }
  return true;
}

at::Tensor thin_conv(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) {
  return run(spec, x, weight, bias, false);
}

at::Tensor thin_conv_input_grad(const ConvSpec& spec, const at::Tensor& grad,
                                const at::Tensor& weight) {
  return run(spec, grad, weight, {}, true);
}

at::Tensor thin_conv_weight_grad(const ConvSpec& spec, const at::Tensor& given,
                                 const at::Tensor& grad) {
  const auto layout = channels_last_of(given);
  const at::Tensor x = given.contiguous(layout), g = grad.to(x.scalar_type()).contiguous(layout);
  const ThinConvCall c = call_of(spec, x);
  at::Tensor out = at::empty(weight_shape(spec), x.options().dtype(at::kFloat));
  const CudaCall cuda(x);
  const at::Tensor workspace = cuda.memory(cuda.table.thin_conv_workspace(c));
  cuda.require(cuda.table.thin_conv_weight_grad(c, g.const_data_ptr(), workspace.data_ptr(),
                                                out.mutable_data_ptr<float>(), cuda.stream));
  return out;
}

}  // namespace sluice
