// The layers of networks that are image filters: MONAI's, without weights but for the trainable
// bilateral filters, whose sigmas are trained under MONAI's names.
#include <ATen/Functions.h>

#include "kernels/image/bilateral.h"
#include "kernels/image/filters.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/lattice.h"
#include "kernels/image/median.h"
#include "nodes/network/layer_types.h"

namespace sluice {
namespace {

using P = LayerParams;

// The filters compute in float32, or float64.
at::Tensor in_float(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? t : t.to(at::kFloat);
}
// `filter` of the values in floats; what it makes has the first one's type and shape.
Value filtered(const std::string& kind, const Values& x, OpOptions o,
               std::function<at::Tensor(const std::vector<at::Tensor>&)> filter) {
  o.with.assign(x.begin() + 1, x.end());
  return x[0].op(
      kind,
      [filter = std::move(filter)](In given) {
        if (given[0].is_meta()) return at::empty_like(given[0]);  // asked for the shape alone
        std::vector<at::Tensor> t;
        for (const at::Tensor& one : given) t.push_back(in_float(one));
        return filter(t).to(given[0].scalar_type());
      },
      o);
}

template <class Filter>
LayerType plain(Spec spec, Filter filter) {
  const std::string kind = spec.name;
  return {std::move(spec), 1, 1, [kind, filter](const Scope&, const Values& x, const P& p) {
            return filtered(kind, x, {}, [p, filter](In t) { return filter(t[0], p); });
          }};
}

Spec& with_sigmas(Spec& s) {
  return s.param("spatial_sigma", &P::spatial_sigma, "In voxels, one or one an axis.")
      .above(0)
      .length(1, 3)
      .param("color_sigma", &P::color_sigma, "In the image's units.")
      .above(0);
}

// Inputs: the image, and the guide where `guided`.
LayerType trainable_bilateral(bool guided) {
  Spec s(guided ? "trainable_joint_bilateral_filter" : "trainable_bilateral_filter",
         guided ? "MONAI's TrainableJointBilateralFilter of image and guide, one channel each."
                : "MONAI's TrainableBilateralFilter, of one channel.");
  const std::string kind = s.name;
  const std::size_t inputs = guided ? 2 : 1;
  return {with_sigmas(s), inputs, inputs, [=](const Scope& at, const Values& x, const P& p) {
            for (const Value& value : x)
              if (value.channels != 1) at.refuse(kind + " takes one channel");
            const auto axes = static_cast<std::size_t>(x[0].axes);
            if (p.spatial_sigma.size() != 1 && p.spatial_sigma.size() != axes)
              at.refuse("spatial_sigma: one number, or one an axis");
            OpOptions o;
            for (std::size_t a = 0; a < axes; ++a)
              o.parameters.push_back(at.parameter(
                  std::string("sigma_") + "xyz" [a], {},
                  Init::fill(p.spatial_sigma[p.spatial_sigma.size() == 1 ? 0 : a])));
            o.parameters.push_back(at.parameter("sigma_color", {}, Init::fill(p.color_sigma)));
            return filtered(kind, x, o, [inputs](In t) {
              const std::vector<at::Tensor> sigmas(t.begin() + static_cast<std::ptrdiff_t>(inputs),
                                                   t.end() - 1);
              return bilateral(t[0], t[inputs - 1], at::stack(sigmas), t.back(),
                               Neighbours::inside);
            });
          }};
}

LayerType crf_type() {
  Spec s("crf", "MONAI's CRF, of logits and image: probabilities that follow the image's edges.");
  const auto rule = [&](const char* name, double CrfRule::*member, const char* doc) {
    ParamSpec param;
    param.name = name;
    param.type = "float";
    param.doc = doc;
    param.fallback = CrfRule{}.*member;
    param.set = [member](void* params, const Json& value) {
      static_cast<P*>(params)->crf.*member = ParamType<double>::parse(value);
    };
    s.params.push_back(std::move(param));
  };
  rule("bilateral_weight", &CrfRule::bilateral_weight, "Of near voxels of like colour.");
  rule("gaussian_weight", &CrfRule::gaussian_weight, "Of near voxels.");
  rule("bilateral_spatial_sigma", &CrfRule::bilateral_spatial_sigma, "In voxels.");
  s.above(0);
  rule("bilateral_color_sigma", &CrfRule::bilateral_color_sigma, "In the image's units.");
  s.above(0);
  rule("gaussian_spatial_sigma", &CrfRule::gaussian_spatial_sigma, "In voxels.");
  s.above(0);
  rule("update_factor", &CrfRule::update_factor, "Of the messages, beside the logits.");
  s.param("iterations", &P::iterations, "0: softmax alone.").at_least(0);
  return {s, 2, 2, [](const Scope&, const Values& x, const P& p) {
            CrfRule r = p.crf;
            r.iterations = p.iterations;
            return filtered("crf", x, {}, [r](In t) { return crf(t[0], t[1], r); });
          }};
}

template <at::Tensor (*kernel)(std::int64_t, std::int64_t)>
LayerType with_kernel(const char* name, const char* doc) {
  Spec s(name, doc);
  s.param("size", &P::size, "Of the kernel on each axis, odd.").at_least(1);
  return {s, 1, 1, [=](const Scope& at, const Values& x, const P& p) {
            if (p.size % 2 == 0) at.refuse("size: expected an odd number");
            return filtered(name, x, {}, [size = p.size](In t) {
              return apply_filter(t[0], kernel(t[0].dim() - 2, size));
            });
          }};
}

}  // namespace

std::vector<LayerType> filter_types() {
  std::vector<LayerType> all;
  all.push_back(trainable_bilateral(false));
  all.push_back(trainable_bilateral(true));
  all.push_back(crf_type());
  Spec bilateral_spec("bilateral_filter",
                      "MONAI's BilateralFilter on the permutohedral lattice; its colours count as "
                      "constant.");
  all.push_back(plain(with_sigmas(bilateral_spec), [](const at::Tensor& x, const P& p) {
    std::vector<double> sigmas(x.size(1), p.color_sigma);
    for (std::int64_t a = 0; a < x.dim() - 2; ++a)
      sigmas.push_back(p.spatial_sigma[p.spatial_sigma.size() == 1 ? 0 : a]);
    return Lattices(at::cat({x.detach(), coordinates(x)}, 1), sigmas).filter(x);
  }));
  all.push_back(plain(Spec("gaussian_filter", "MONAI's GaussianFilter; sigma is not trained.")
                          .param("sigma", &P::sigma, "In voxels, one or one an axis.")
                          .above(0)
                          .length(1, 3)
                          .param("truncated", &P::truncated, "Where it is cut, in sigmas.")
                          .above(0)
                          .param("approx", &P::approx, "How it becomes weights.")
                          .choices(gaussian_names),
                      [](const at::Tensor& x, const P& p) {
                        std::vector<at::Tensor> kernels;
                        for (const double s : p.sigma)
                          kernels.push_back(gaussian_kernel(at::scalar_tensor(s, at::kDouble),
                                                            p.truncated, p.approx));
                        return separable_filtering(x, kernels);
                      }));
  all.push_back(plain(Spec("median_filter", "MONAI's MedianFilter.")
                          .param("radius", &P::radius, "The window is 2 r + 1 voxels wide.")
                          .at_least(0)
                          .length(1, 3),
                      [](const at::Tensor& x, const P& p) { return median_filter(x, p.radius); }));
  all.push_back(with_kernel<mean_kernel>("mean_filter", "MONAI's MeanFilter: a sum."));
  all.push_back(with_kernel<laplace_kernel>("laplace_filter", "MONAI's LaplaceFilter."));
  all.push_back(with_kernel<elliptical_kernel>("elliptical_filter", "MONAI's EllipticalFilter."));
  all.push_back(with_kernel<sharpen_kernel>("sharpen_filter", "MONAI's SharpenFilter."));
  return all;
}

}  // namespace sluice
