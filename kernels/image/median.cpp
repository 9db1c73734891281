#include "kernels/image/median.h"

#include "kernels/base/autograd.h"
#include "kernels/base/team.h"
#include "kernels/image/frame.h"
#include "kernels/image/median_select.h"

namespace sluice {
namespace {

constexpr int lanes = 16;

// Where the neighbours of a voxel of a framed volume are, from the window's first.
std::vector<std::int64_t> offsets(const at::Tensor& framed, const Margin& r) {
  std::vector<std::int64_t> out;
  for (std::int64_t a = 0; a <= 2 * r[0]; ++a)
    for (std::int64_t b = 0; b <= 2 * r[1]; ++b)
      for (std::int64_t c = 0; c <= 2 * r[2]; ++c)
        out.push_back(a * framed.stride(1) + b * framed.stride(2) + c);
  return out;
}

// volume [N, X, Y, Z]
template <class T>
at::Tensor medians(const at::Tensor& volume, const Margin& r) {
  const at::Tensor from = framed(volume, r, true),
                   out = at::empty(volume.sizes(), volume.options());
  const auto by = offsets(from, r);
  const std::int64_t X = volume.size(1), Y = volume.size(2), Z = volume.size(3);
  team_for(volume.size(0) * X * Y, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> held(kernels::median_held(static_cast<std::int64_t>(by.size())) * lanes);
    for (std::int64_t row = begin; row < end; ++row) {
      const T* at = from.const_data_ptr<T>() + row / (X * Y) * from.stride(0) +
                    row / Y % X * from.stride(1) + row % Y * from.stride(2);
      T* to = out.mutable_data_ptr<T>() + row * Z;
      const auto some = [&](auto count, std::int64_t z) {
        kernels::median_select<T, decltype(count)::value>(
            static_cast<std::int64_t>(by.size()), held.data(), to + z,
            [&](std::int64_t i) { return at + z + by[i]; });
      };
      if (Z >= lanes)
        for (std::int64_t z = 0; z < Z; z += lanes)
          some(std::integral_constant<int, lanes>(), std::min(z, Z - lanes));
      else
        for (std::int64_t z = 0; z < Z; ++z) some(std::integral_constant<int, 1>(), z);
    }
  });
  return out;
}

struct SavedMedian {
  at::Tensor image, out;  // [N, X, Y, Z]
  Margin radius;

  template <class T>
  at::Tensor gradient(const at::Tensor& grad) const {
    const at::Tensor from = framed(image, radius, true), in_frame = at::zeros_like(from);
    const auto by = offsets(from, radius);
    const std::int64_t X = image.size(1), Y = image.size(2), Z = image.size(3), n = X * Y * Z;
    team_for(image.size(0), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * n; i < end * n; ++i) {
        const std::int64_t at = i / n * from.stride(0) + i / (Y * Z) % X * from.stride(1) +
                                i / Z % Y * from.stride(2) + i % Z;
        const T median = out.const_data_ptr<T>()[i];
        for (const std::int64_t b : by)
          if (from.const_data_ptr<T>()[at + b] == median) {
            in_frame.mutable_data_ptr<T>()[at + b] += grad.const_data_ptr<T>()[i];
            break;
          }
      }
    });
    return folded(in_frame, radius);
  }
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    const at::Tensor grad = grads[0].contiguous();
    return {(image.scalar_type() == at::kDouble ? gradient<double>(grad) : gradient<float>(grad))
                .view(grad.sizes())};
  }
};

}  // namespace

at::Tensor median_filter(const at::Tensor& given, const std::vector<std::int64_t>& radius) {
  const at::Tensor image = with_three_axes(given.detach().flatten(0, 1)).contiguous();
  const std::int64_t axes = given.dim() - 2;
  Margin r{0, 0, 0};
  for (std::int64_t a = 0; a < axes; ++a) r[3 - axes + a] = radius[radius.size() == 1 ? 0 : a];
  at::Tensor out;
  {
    const at::NoGradGuard no_grad;
    out = image.scalar_type() == at::kDouble ? medians<double>(image, r) : medians<float>(image, r);
  }
  const at::Tensor shaped = out.view(given.sizes());
  attach("MedianBackward", {shaped}, {given}, SavedMedian{image, out.detach(), r});
  return shaped;
}

}  // namespace sluice
