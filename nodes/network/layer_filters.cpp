// The layers of networks that are MONAI's image filters, without weights but for the trainable
// bilateral filters, whose sigmas are trained under MONAI's names; and its recurrent cell.
#include <ATen/Functions.h>

#include "kernels/image/bilateral.h"
#include "kernels/image/filters.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/lattice.h"
#include "kernels/image/median.h"
#include "kernels/net/lltm.h"
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

// Lists of a number, or of one for each of x's axes.
void check_extents(const Value& x, const P& p) {
  const auto axes = static_cast<std::size_t>(x.axes);
  require_one_or("spatial_sigma", p.spatial_sigma.size(), axes);
  require_one_or("sigma", p.sigma.size(), axes);
  require_one_or("radius", p.radius.size(), axes);
}

template <class Filter>
LayerType plain(Spec spec, Filter filter) {
  const std::string kind = spec.name;
  return {std::move(spec), 1, 1, [kind, filter](const Scope&, const Values& x, const P& p) {
            check_extents(x[0], p);
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
            check_extents(x[0], p);
            const auto axes = static_cast<std::size_t>(x[0].axes);
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

LayerType phl_type() {
  Spec s("phl_filter",
         "MONAI's PHLFilter of image and features, on the permutohedral lattice; the features "
         "count as constant.");
  s.param("sigmas", &P::sigmas, "One a feature, in its units; null: 1 each.").above(0);
  return {s, 2, 2, [](const Scope& at, const Values& x, const P& p) {
            const auto sigmas =
                p.sigmas.value_or(std::vector<double>(static_cast<std::size_t>(x[1].channels), 1));
            if (static_cast<std::int64_t>(sigmas.size()) != x[1].channels)
              at.refuse("sigmas: " + std::to_string(sigmas.size()) + " for " +
                        std::to_string(x[1].channels) + " features");
            return filtered("phl_filter", x, {},
                            [sigmas](In t) { return Lattices(t[1], sigmas).filter(t[0]); });
          }};
}

// A spatial axis of what flows there.
std::int64_t layer_axis(const Scope& at, const Value& x, std::int64_t axis) {
  const std::int64_t dims = x.axes + 2, a = axis < 0 ? axis + dims : axis;
  if (a < 2 || a >= dims)
    at.refuse("axis: expected 2 to " + std::to_string(dims - 1) + ", found " +
              std::to_string(axis));
  return a;
}
Spec& with_axis(Spec& s) {
  return s.param("axis", &P::axis, "Of a batch: 2 is the first spatial axis.");
}

LayerType savitzky_golay_type() {
  Spec s("savitzky_golay_filter", "MONAI's SavitzkyGolayFilter, along one axis.");
  with_axis(s.param("window_length", &P::window_length, "Voxels of the window, odd.")
                .at_least(1)
                .param("order", &P::order, "Of the polynomial, below window_length.")
                .at_least(0)
                .param("mode", &P::mode, "What lies outside.")
                .choices(padding_names));
  return {s, 1, 1, [](const Scope& at, const Values& x, const P& p) {
            require_odd_kernels(p.window_length, "window_length");
            if (p.order >= p.window_length) at.refuse("order: expected less than window_length");
            return filtered("savitzky_golay_filter", x, {},
                            [axis = layer_axis(at, x[0], p.axis), mode = p.mode,
                             kernel = savitzky_golay_kernel(p.window_length, p.order)](In t) {
                              return filter_along(t[0], axis, kernel, mode);
                            });
          }};
}

LayerType hilbert_type() {
  Spec s("hilbert_transform",
         "MONAI's HilbertTransform: twice the channels, real parts before imaginary ones.");
  with_axis(s).param("n", &P::n, "Numbers of the FFT; null: the axis's own.").at_least(1);
  return {s, 1, 1, [](const Scope& at, const Values& x, const P& p) {
            OpOptions o;
            o.channels = 2 * x[0].channels;
            return x[0].op(
                "hilbert_transform",
                [axis = layer_axis(at, x[0], p.axis), n = p.n](In t) {
                  const std::int64_t numbers = n.value_or(t[0].size(axis));
                  if (t[0].is_meta()) {  // asked for the shape alone
                    auto shape = t[0].sizes().vec();
                    shape[1] *= 2;
                    shape[static_cast<std::size_t>(axis)] = numbers;
                    return at::empty(shape, t[0].options());
                  }
                  const at::Tensor h = hilbert_transform(in_float(t[0]), axis, numbers);
                  return at::cat({h.select(-1, 0), h.select(-1, 1)}, 1).to(t[0].scalar_type());
                },
                o);
          }};
}

// The old state and the new one are [N, 2 state_size]: h, then cell.
LayerType lltm_type() {
  Spec s("lltm",
         "MONAI's LLTM of [N, C] and the state [N, 2 state_size], h before cell, of another such "
         "cell; without one, zeros. It makes the new state.");
  s.param("state_size", &P::state_size, "Numbers of h, and of cell.").at_least(1).required();
  return {s, 1, 2, [](const Scope& at, const Values& x, const P& p) {
            const std::int64_t n = p.state_size;
            if (x[0].axes > 0 || x[0].tokens) at.refuse("lltm takes vectors, not an image");
            if (x.size() > 1 && (x[1].axes > 0 || x[1].channels != 2 * n))
              at.refuse("the state has " + std::to_string(x[1].channels) +
                        " channels; expected 2 state_size, " + std::to_string(2 * n));
            OpOptions o;
            o.with.assign(x.begin() + 1, x.end());
            o.channels = 2 * n;
            o.parameters = {at.parameter("weights", {3 * n, n + x[0].channels}, {}, n),
                            at.parameter("bias", {1, 3 * n}, {}, n)};
            return x[0].op(
                "lltm",
                [n, stated = x.size() > 1](In t) {
                  const at::Tensor old =
                      stated ? t[1] : at::zeros({t[0].size(0), 2 * n}, t[0].options());
                  const LltmState made = lltm(t[0], {old.narrow(1, 0, n), old.narrow(1, n, n)},
                                              t[t.size() - 2], t.back());
                  return at::cat({made.h, made.cell}, 1);
                },
                o);
          }};
}

template <at::Tensor (*kernel)(std::int64_t, std::int64_t)>
LayerType with_kernel(const char* name, const char* doc) {
  Spec s(name, doc);
  s.param("size", &P::size, "Of the kernel on each axis, odd.").at_least(1);
  return {s, 1, 1, [=](const Scope&, const Values& x, const P& p) {
            require_odd_kernels(p.size, "size");
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
  all.push_back(phl_type());
  all.push_back(savitzky_golay_type());
  all.push_back(hilbert_type());
  all.push_back(lltm_type());
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
  for (LayerType& t : all) t.recordable = t.spec.name == "lltm";  // kernels are made on the host
  return all;
}

}  // namespace sluice
