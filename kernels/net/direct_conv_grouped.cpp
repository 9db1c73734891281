#include "kernels/net/direct_conv_grouped.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/net/channels.h"
#include "kernels/net/direct_conv_shape.h"

namespace sluice {
namespace {

constexpr std::int64_t least_channels = 4, lanes = 16;

// The groups of a bundle: so few that their channels fill a vector.
std::int64_t groups_of_bundle(const ConvSpec& s) {
  const std::int64_t of_group = std::min(s.in, s.out) / s.groups;
  std::int64_t n = 1;
  while (n < s.groups && (s.groups % n != 0 || n * of_group < lanes)) ++n;
  return n;
}

// body(rows of a weight, rows and columns of the bundle's weight where they stand) of each group.
template <class F>
void each_group(const ConvSpec& spec, const at::Tensor& weight, const at::Tensor& bundle,
                std::int64_t number, const F& body) {
  const std::int64_t groups = groups_of_bundle(spec), rows = bundle.size(0) / groups,
                     columns = bundle.size(1) / groups;
  for (std::int64_t g = 0; g < groups; ++g)
    body(weight.narrow(0, (number * groups + g) * rows, rows),
         bundle.narrow(0, g * rows, rows).narrow(1, g * columns, columns));
}

// The weight of a bundle, with zeros between the groups.
at::Tensor bundle_weight(const ConvSpec& spec, const at::Tensor& weight, std::int64_t number) {
  const at::Tensor bundle = at::zeros(weight_shape(bundle_of(spec)), weight.options());
  each_group(
      spec, weight, bundle, number,
      [](const at::Tensor& of_all, const at::Tensor& of_bundle) { of_bundle.copy_(of_all); });
  return bundle;
}

at::Tensor bundle_from(const at::Tensor& t, std::int64_t channels, std::int64_t number) {
  if (!t.defined() || t.size(1) == channels) return t;
  return copied_channels(t, number * channels, channels);
}

}  // namespace

bool is_grouped(const ConvSpec& spec) {
  return spec.groups > 1 && std::min(spec.in, spec.out) / spec.groups >= least_channels;
}

ConvSpec bundle_of(const ConvSpec& spec) {
  ConvSpec one = spec;
  const std::int64_t bundles = spec.groups / groups_of_bundle(spec);
  one.groups = 1;
  one.in = spec.in / bundles;
  one.out = spec.out / bundles;
  return one;
}

GroupedGather::GroupedGather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint,
                             Products products, at::ScalarType type, at::IntArrayRef out) {
  const ConvSpec one = bundle_of(spec);
  in_ = adjoint ? one.out : one.in;
  out_ = adjoint ? one.in : one.out;
  const bool by_tiles = winograd_pays(one, type, products, {}, out);
  for (std::int64_t i = 0; i < spec.in / one.in; ++i) {
    const at::Tensor w = bundle_weight(spec, weight.detach(), i);
    if (by_tiles)
      winograd_.emplace_back(one, w, adjoint, products, type);
    else
      gathers_.emplace_back(one, w, adjoint, products, type, out);
  }
}

void GroupedGather::run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                        at::Tensor& out) const {
  for (std::size_t i = 0; i < winograd_.size(); ++i)
    winograd_[i].run(in, bias, residual, out, static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < gathers_.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    at::Tensor some = image_with(out_, out);
    gathers_[i].run(bundle_from(in, in_, number),
                    bias.defined() ? bias.narrow(0, number * out_, out_) : bias,
                    bundle_from(residual, out_, number), some);
    copy_channels({some, 0}, {out, number * out_}, out.numel() / out.size(1));
  }
}

at::Tensor grouped_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad,
                               Products products) {
  const ConvSpec one = bundle_of(spec);
  const at::Tensor all = at::empty(weight_shape(spec), at::kFloat);
  for (std::int64_t i = 0; i < spec.in / one.in; ++i) {
    const at::Tensor dw = winograd_grad_pays(one, grad, products)
                              ? winograd_weight_grad(one, x, grad, products, i)
                              : direct_weight_grad(one, bundle_from(x, one.in, i),
                                                   bundle_from(grad, one.out, i), products);
    each_group(spec, all, dw, i, [](const at::Tensor& of_all, const at::Tensor& of_bundle) {
      of_all.copy_(of_bundle);
    });
  }
  return all;
}

}  // namespace sluice
