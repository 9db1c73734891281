#include "kernels/image/smooth_field.h"

#include <ATen/ATen.h>

#include "engine/base/error.h"

namespace sluice {

at::Tensor smooth_field(const at::Tensor& coarse, const Shape3& shape, Resizing mode,
                        bool align_corners) {
  const at::Tensor large = resize(coarse, shape, mode, align_corners);
  const auto [low, high] = at::aminmax(large);
  const auto [least, most] = at::aminmax(coarse);
  const at::Tensor range = at::where((high - low).eq(0), 1, high - low);  // all one value: it stays
  return (large - low) / range * (most - least) + least;
}

at::Tensor field_contrast(const at::Tensor& image, const at::Tensor& field) {
  const at::Tensor x = image.to(at::kFloat);
  const auto [low, high] = at::aminmax(x);
  return ((x - low) / (high - low + 1e-10)).pow(field) * (high - low) + low;
}

at::Tensor field_deform(const at::Tensor& image, std::int64_t axes, const at::Tensor& field,
                        const std::string& mode, Padding padding, bool align_corners) {
  const int how = mode == "bilinear" ? 0 : mode == "nearest" ? 1 : 2;
  if (how == 2 && axes != 2) throw DataError("bicubic sampling is of pictures, not of volumes");
  std::vector<at::Tensor> moved;  // torch's order: the last axis first
  for (std::int64_t d = axes - 1; d >= 0; --d) {
    std::vector<std::int64_t> shape(3, 1);
    shape[static_cast<std::size_t>(d)] = image.size(d + 1);
    moved.push_back(field[d] + at::linspace(-1, 1, image.size(d + 1), at::kFloat).view(shape));
  }
  at::Tensor grid = at::stack(moved, -1).unsqueeze(0);
  at::Tensor x = image.to(at::kFloat).unsqueeze(0);
  if (axes == 2) grid = grid.squeeze(3), x = x.squeeze(-1);
  const int outside = padding == Padding::zeros ? 0 : padding == Padding::border ? 1 : 2;
  const at::Tensor out = at::grid_sampler(x, grid, how, outside, align_corners).squeeze(0);
  return (axes == 2 ? out.unsqueeze(-1) : out).to(image.scalar_type());
}

}  // namespace sluice
