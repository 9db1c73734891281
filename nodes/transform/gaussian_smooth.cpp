// gaussian_smooth: MONAI's GaussianSmoothd with approx "erf": each tap is the Gaussian's integral
// over its voxel, cut off at four standard deviations, zeros outside.
#include <ATen/ops/conv3d.h>
#include <ATen/ops/tensor.h>

#include <cmath>

#include "engine/registry.h"
#include "engine/transform.h"
#include "kernels/spatial.h"

namespace sluice {
namespace {

at::Tensor taps(double sigma) {
  const int tail = static_cast<int>(std::max(4.0 * sigma, 0.5) + 0.5);
  const double t = 1 / (std::sqrt(2.0) * std::abs(sigma));
  std::vector<float> v;
  for (int x = -tail; x <= tail; ++x)
    v.push_back(static_cast<float>(
        std::max(0.0, 0.5 * (std::erf(t * (x + 0.5)) - std::erf(t * (x - 0.5))))));
  return at::tensor(v);
}

struct GaussianSmooth final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::vector<double> sigma{1.0};
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("gaussian_smooth", "Smooths with a Gaussian.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to smooth, [C, X, Y, Z]; they become float32.")
        .param("sigma", &Params::sigma, "Standard deviation in voxels, one or one an axis.")
        .at_least(1e-3)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  at::Tensor smooth(const at::Tensor& volume) const {
    at::Tensor v = volume.to(at::kFloat).unsqueeze(1);  // channels as a batch of one channel each
    for (std::int64_t axis = 0; axis < 3; ++axis) {
      const at::Tensor k = taps(per_key(p.sigma, static_cast<std::size_t>(axis)));
      std::int64_t shape[] = {1, 1, 1, 1, 1}, pad[] = {0, 0, 0};
      shape[2 + axis] = k.numel();
      pad[axis] = k.numel() / 2;
      v = at::conv3d(v, k.view(shape), {}, at::IntArrayRef({1, 1, 1}), at::IntArrayRef(pad, 3));
    }
    return v.squeeze(1);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      const auto axes = field.tensor.dim() - 1;
      field.tensor = from_volume(smooth(to_volume(field.tensor)), axes);
    });
    f.emit(std::move(out));
  }
};

const Register<GaussianSmooth> registered;

}  // namespace
}  // namespace sluice
