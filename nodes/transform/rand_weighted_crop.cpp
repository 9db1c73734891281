// rand_weighted_crop: MONAI's RandWeightedCropd.
#include <ATen/Functions.h>

#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

struct RandWeightedCrop final : FusedNode {
  struct Params : CropParams {
    std::string w_key = "weight";
    std::vector<std::int64_t> spatial_size;
    std::int64_t num_samples = 1;
  } p;

  static Spec spec() {
    Spec s("rand_weighted_crop", "Crops num_samples patches at places drawn by a map of weights.");
    return add_crop_params(s)
        .param(
            "w_key", &Params::w_key,
            "The map [1, X(, Y(, Z))]: how often a voxel becomes a centre, in proportion. Where a "
            "weight is below 0 the smallest is subtracted; all alike where the sum is 0.")
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less, or more than there are: the axis.")
        .required()
        .param("num_samples", &Params::num_samples, "Patches a sample.")
        .at_least(1)
        .expands("num_samples")
        .random()
        .takes("@w_key", Form::image, 1, 3)
        .per_axis("@w_key", "spatial_size")
        .crops("@keys", "spatial_size");
  }

  void process(Firing& f) override {
    const at::Tensor& weights = f.in().tensor(p.w_key);
    require_spatial(weights, p.w_key, 1);
    if (weights.size(0) != 1)
      throw shape_error(p.w_key, weights, "; a map of weights has one channel");
    const at::Tensor volume = to_volume(weights);
    const Shape3 shape = shape_of(volume);
    Shape3 size = fall_back(p.spatial_size, shape, weights.dim() - 1), first{}, places{};
    at::Tensor inner = volume[0];
    for (int d = 0; d < 3; ++d) {
      const bool fits = shape[d] > size[d];
      places[d] = fits ? shape[d] - size[d] : 1;
      first[d] = fits ? size[d] / 2 : shape[d] / 2;
      size[d] = std::min(size[d], shape[d]);
      inner = inner.narrow(d, first[d], places[d]);
    }
    inner = inner.to(at::kCPU, at::kDouble).flatten();
    const double least = inner.min().item<double>();
    const at::Tensor sums = (least < 0 ? inner - least : inner).cumsum(0).contiguous();
    const double* sum = sums.const_data_ptr<double>();
    const std::int64_t n = sums.numel();
    Random random = f.random();
    for (std::int64_t i = 0; i < p.num_samples; ++i) {
      const double all = sum[n - 1];
      const std::int64_t at =
          std::isfinite(all) && all > 0
              ? std::min(std::upper_bound(sum, sum + n, random.uniform() * all) - sum, n - 1)
              : static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(n)));
      const std::int64_t plane = places[1] * places[2];
      const Shape3 centre{first[0] + at / plane, first[1] + at % plane / places[2],
                          first[2] + at % places[2]};
      finish(f, patch_around(f.in(), p, "rand_weighted_crop", centre, size, shape));
    }
  }
};

const Register<RandWeightedCrop> registered;

}  // namespace
}  // namespace sluice
