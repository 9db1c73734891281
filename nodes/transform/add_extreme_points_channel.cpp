// add_extreme_points_channel: MONAI's AddExtremePointsChanneld (Roth et al. 2021).
#include <ATen/Functions.h>

#include "kernels/image/gaussian.h"
#include "nodes/transform/each_key.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct AddExtremePointsChannel final : Node {
  struct Params : KeyParams {
    std::string label_key = "label";
    std::int64_t background = 0;
    double pert = 0, rescale_min = -1, rescale_max = 1;
    std::vector<double> sigma{3};
  } p;

  static Spec spec() {
    return each_key_spec<Params>("add_extreme_points_channel",
                                 "Adds a channel with Gaussians around an object's outermost "
                                 "voxels, two an axis.",
                                 "Images [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("label_key", &Params::label_key, "The object, one channel.")
        .param("background", &Params::background, "Its value outside of the object.")
        .param("pert", &Params::pert,
               "Each coordinate of a point is moved by up to 2 pert voxels, drawn.")
        .param("sigma", &Params::sigma, "Of the Gaussians, voxels, one or one an axis.")
        .above(0)
        .length(1, 3)
        .param("rescale_min", &Params::rescale_min, "The channel's least value.")
        .param("rescale_max", &Params::rescale_max, "The channel's largest value.")
        .random()
        .takes("@keys", Form::image, 2, 3)
        .takes("@label_key", Form::image, 2, 3)
        .per_axis("@label_key", "sigma")
        .changes("@keys")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Random random = f.random();
    Sample out = f.in();
    const at::Tensor map = point_map(one_channel(out, p.label_key), random);
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      if (field.tensor.sizes().slice(1) != map.sizes().slice(1))
        throw shape_error(p.keys[i], field.tensor, ", the label " + list_text(map.sizes()));
      field.tensor = at::cat({field.tensor.to(at::kFloat), map});
    });
    f.emit(std::move(out));
  }

 private:
  at::Tensor point_map(const at::Tensor& label, Random& random) const {
    const at::Tensor voxels = label[0].ne(p.background).nonzero();
    if (voxels.size(0) == 0)
      throw DataError("field \"" + p.label_key + "\" has no foreground: no voxel is other than " +
                      std::to_string(p.background));
    const std::int64_t axes = voxels.size(1);
    at::Tensor points = at::zeros_like(label, at::kFloat);
    for (std::int64_t d = 0; d < axes; ++d)
      for (const at::Tensor& end : {voxels.select(1, d).min(), voxels.select(1, d).max()}) {
        const at::Tensor candidates = voxels.select(1, d).eq(end).nonzero().flatten();
        const auto n = random.integer(static_cast<std::uint64_t>(candidates.size(0)));
        const auto row = candidates[static_cast<std::int64_t>(n)].item<std::int64_t>();
        at::Tensor voxel = points[0];
        for (std::int64_t j = 0; j < axes; ++j) {
          const auto at = voxels[row][j].item<std::int64_t>();
          const auto moved =
              static_cast<std::int64_t>(static_cast<double>(at) + 2 * p.pert * random.uniform());
          voxel = voxel[std::clamp<std::int64_t>(moved, 0, label.size(j + 1) - 1)];
        }
        voxel.fill_(1);
      }
    const at::Tensor smooth =
        from_volume(gaussian(to_volume(points), one_an_axis(p.sigma, axes, "sigma")), axes);
    const auto [low, high] = at::aminmax(smooth);
    return (smooth - low) / (high - low) * (p.rescale_max - p.rescale_min) + p.rescale_min;
  }
};

const Register<AddExtremePointsChannel> registered;

}  // namespace
}  // namespace sluice
