#include "kernels/image/bilateral.h"

#include "engine/base/error.h"
#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/image/bilateral_voxel.h"
#include "kernels/image/frame.h"

namespace sluice {
namespace {

using kernels::BilateralCall;

// Three sigmas and half windows; axes that are not there come first, and have none.
struct Window {
  std::array<double, 3> sigma{1, 1, 1};
  double color = 1;
  Margin half{0, 0, 0};
  bool clamped = true;

  Window(std::int64_t axes, const at::Tensor& spatial, const at::Tensor& color_sigma,
         Neighbours neighbours)
      : color(color_sigma.item<double>()), clamped(neighbours == Neighbours::clamped) {
    const at::Tensor given = spatial.detach().to(at::kDouble).reshape(-1);
    for (std::int64_t a = 0; a < axes; ++a) {
      const double s = given[given.numel() == 1 ? 0 : a].item<double>();
      auto wide = static_cast<std::int64_t>(std::ceil(5 * static_cast<float>(s)));
      if (!clamped) wide = std::max<std::int64_t>(wide, 5);
      sigma[3 - axes + a] = s;
      half[3 - axes + a] = (wide | 1) / 2;
    }
  }
};

template <class T>
BilateralCall<T> call_of(const Window& window, const at::Tensor& image, const at::Tensor& guide,
                         const at::Tensor& mask) {
  BilateralCall<T> c;
  c.channels = static_cast<int>(image.size(0));
  c.guides = static_cast<int>(guide.size(0));
  for (int a = 0; a < 3; ++a) {
    c.half[a] = static_cast<int>(window.half[a]);
    c.of[a] = image.size(a + 1) - 2 * window.half[a];
    c.stride[a] = image.stride(a + 1);
    c.space[a] = static_cast<T>(-1 / (2 * M_LN2 * window.sigma[a] * window.sigma[a]));
  }
  c.cells = image.numel() / image.size(0);
  c.color = static_cast<T>(-1 / (2 * M_LN2 * window.color * window.color));
  c.image = image.const_data_ptr<T>();
  c.guide = guide.const_data_ptr<T>();
  if (mask.defined()) c.mask = mask.const_data_ptr<T>();
  return c;
}

// 1 where a framed image has voxels; none where a frame has the nearest ones.
at::Tensor mask_of(const at::Tensor& image, const Window& window, const Margin& margin) {
  if (window.clamped) return {};
  return framed(at::ones_like(image.narrow(0, 0, 1)), margin, false);
}

// On the device where the call's memory is.
void run_there(const BilateralCall<float>& c, bool backward, const at::Tensor& on) {
  const CudaCall cuda(on);
  cuda.require(cuda.table.bilateral(c, backward, cuda.stream));
}
void run_there(const BilateralCall<double>&, bool, const at::Tensor&) {
  throw DataError("bilateral filters of float64 run on the host alone");
}

// All voxels, `lanes` of a row at a time; the last ones of a row are done with some before them.
template <class T>
void run(const BilateralCall<T>& c, bool backward, const at::Tensor& on) {
  if (on.is_cuda()) return run_there(c, backward, on);
  constexpr int lanes = 16;
  const std::int64_t n = c.of[2];
  team_for(c.of[0] * c.of[1], [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> held(lanes * (4 + c.channels + c.guides));
    const auto some = [&](auto count, std::int64_t row, std::int64_t z) {
      constexpr int L = decltype(count)::value;
      const std::int64_t p = c.cell(row / c.of[1], row % c.of[1], z);
      if (backward)
        kernels::bilateral_slopes<T, L>(c, p, held.data());
      else
        kernels::bilateral_sums<T, L>(c, p, held.data());
      kernels::bilateral_store<T, L>(c, row * n + z, L, held.data(), backward);
    };
    for (std::int64_t row = begin; row < end; ++row) {
      if (n < lanes)
        for (std::int64_t z = 0; z < n; ++z) some(std::integral_constant<int, 1>(), row, z);
      else
        for (std::int64_t z = 0; z < n; z += lanes)
          some(std::integral_constant<int, lanes>(), row, std::min(z, n - lanes));
    }
  });
}

// Of one batch member: what comes out, [C, X, Y, Z], and the sum of weights, [X, Y, Z].
template <class T>
void forward(const Window& window, const at::Tensor& image, const at::Tensor& guide,
             const at::Tensor& out, const at::Tensor& weight) {
  const at::Tensor x = framed(image, window.half, window.clamped),
                   g = guide.is_same(image) ? x : framed(guide, window.half, window.clamped),
                   mask = mask_of(image, window, window.half);
  auto c = call_of<T>(window, x, g, mask);
  c.filtered = out.mutable_data_ptr<T>();
  c.weight = weight.mutable_data_ptr<T>();
  run(c, false, x);
}

struct Slopes {
  at::Tensor image, guide;         // [C, X, Y, Z], [G, X, Y, Z]
  std::array<double, 4> sigmas{};  // color, then the axes
};

// Voxels of the frame are read as neighbours and, where they are copies, have gradients too, so
// these are computed in a frame and folded back.
template <class T>
Slopes backward(const Window& window, const at::Tensor& image, const at::Tensor& guide,
                const at::Tensor& grad, const at::Tensor& out, const at::Tensor& weight) {
  const Margin none{0, 0, 0}, copies = window.clamped ? window.half : none;
  Margin margin = window.half;
  for (int a = 0; a < 3; ++a) margin[a] += copies[a];
  const at::Tensor x = framed(image, margin, window.clamped),
                   g = guide.is_same(image) ? x : framed(guide, margin, window.clamped),
                   mask = mask_of(image, window, margin),
                   slope = framed(at::div(grad, weight), margin, false),
                   o = framed(out, margin, false);
  auto c = call_of<T>(window, x, g, mask);
  c.slope = slope.const_data_ptr<T>();
  c.out = o.const_data_ptr<T>();
  const auto made = [&](std::int64_t channels) {
    return at::empty({channels, c.of[0], c.of[1], c.of[2]}, image.options());
  };
  at::Tensor to_image = made(c.channels), to_guide = made(c.guides), to_sigmas = made(4);
  c.to_image = to_image.mutable_data_ptr<T>();
  c.to_guide = to_guide.mutable_data_ptr<T>();
  c.to_sigmas = to_sigmas.mutable_data_ptr<T>();
  run(c, true, x);
  Slopes s;
  s.image = folded(to_image, copies);
  s.guide = folded(to_guide, copies).div_(window.color * window.color);
  const std::int64_t n = c.voxels();
  const at::Tensor on_host = to_sigmas.cpu();
  const T* shares = on_host.const_data_ptr<T>();
  for (int k = 0; k < 4; ++k) {
    const double sigma = k == 0 ? window.color : window.sigma[k - 1];
    for (std::int64_t i = 0; i < n; ++i) s.sigmas[k] += shares[k * n + i];
    s.sigmas[k] /= sigma * sigma * sigma;
  }
  return s;
}

// f(T{}) with the image's type.
template <class F>
auto with_type(const at::Tensor& t, F&& f) {
  return t.scalar_type() == at::kDouble ? f(double{}) : f(float{});
}

struct Saved {
  Window window;
  at::Tensor image, guide, out, weight, spatial, color;
  bool to_image, to_guide, to_spatial, to_color;

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const std::int64_t axes = image.dim() - 2;
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor image_grad = at::empty_like(image), guide_grad = at::empty_like(guide),
               space = at::zeros({axes}, at::kDouble);
    double color_grad = 0;
    for (std::int64_t b = 0; b < image.size(0); ++b) {
      const Slopes s = with_type(image, [&](auto type) {
        const at::Tensor x = with_three_axes(image[b]);
        return sluice::backward<decltype(type)>(
            window, x, guide.is_same(image) ? x : with_three_axes(guide[b]),
            with_three_axes(grad[b]), with_three_axes(out[b]), weight[b]);
      });
      image_grad[b].copy_(s.image.view_as(image_grad[b]));
      guide_grad[b].copy_(s.guide.view_as(guide_grad[b]));
      for (std::int64_t a = 0; a < axes; ++a) space[a] += s.sigmas[1 + 3 - axes + a];
      color_grad += s.sigmas[0];
    }
    if (spatial.numel() == 1) space = space.sum();
    return {to_image ? image_grad : at::Tensor(), to_guide ? guide_grad : at::Tensor(),
            to_spatial ? space.reshape(spatial.sizes()).to(spatial.options()) : at::Tensor(),
            to_color ? at::full_like(color, color_grad) : at::Tensor()};
  }
};

}  // namespace

at::Tensor bilateral(const at::Tensor& given, const at::Tensor& given_guide,
                     const at::Tensor& spatial_sigma, const at::Tensor& color_sigma,
                     Neighbours neighbours) {
  const at::Tensor image = given.detach().contiguous(),
                   guide = given_guide.is_same(given) ? image : given_guide.detach().contiguous();
  const Window window(image.dim() - 2, spatial_sigma, color_sigma, neighbours);
  const at::Tensor out = at::empty_like(image),
                   weight = at::empty_like(image.select(1, 0), at::MemoryFormat::Contiguous);
  {
    const at::NoGradGuard no_grad;
    for (std::int64_t b = 0; b < image.size(0); ++b)
      with_type(image, [&](auto type) {
        const at::Tensor x = with_three_axes(image[b]);
        forward<decltype(type)>(window, x, guide.is_same(image) ? x : with_three_axes(guide[b]),
                                out[b], weight[b]);
      });
  }
  attach("BilateralBackward", {out}, {given, given_guide, spatial_sigma, color_sigma},
         Saved{window, image, guide, out.detach(), weight, spatial_sigma.detach(),
               color_sigma.detach(), given.requires_grad(), given_guide.requires_grad(),
               spatial_sigma.requires_grad(), color_sigma.requires_grad()});
  return out;
}

}  // namespace sluice
