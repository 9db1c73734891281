// phl_filter: MONAI's PHLFilter, a Gaussian of any features on the permutohedral lattice.
#include "kernels/image/lattice.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct PhlFilterParams : FilterParams {
  std::string features_key = "features";
  std::optional<std::vector<double>> sigmas;
};

struct PhlFilter final : FilterNode<PhlFilterParams> {
  static Spec spec() {
    Spec s("phl_filter",
           "Each voxel becomes the mean of all voxels, weighted by a Gaussian of how far their "
           "features are, on the permutohedral lattice. Gradients: image.");
    add_filter_params<Params>(s)
        .param("features_key", &Params::features_key,
               "Field with the features, [F, ...] or [B, F, ...], of the image's extents.")
        .takes("@features_key", Form::any)
        .param("sigmas", &Params::sigmas, "One a feature, in its units; null: 1 each.")
        .above(0);
    return on_tape(s).any_device();
  }

 protected:
  at::Tensor of(const Sample& sample, FilterBatch& image) const override {
    FilterBatch features(sample, p.features_key, image.axes());
    image.require_like(features, p.image_key, p.features_key);
    const auto count = static_cast<std::size_t>(features.of.size(1));
    const auto sigmas = p.sigmas.value_or(std::vector<double>(count, 1.0));
    if (sigmas.size() != count)
      throw DataError("sigmas: " + std::to_string(sigmas.size()) + " for " + std::to_string(count) +
                      " features");
    return Lattices(features.of, sigmas).filter(image.of);
  }
};

const Register<PhlFilter> registered;

}  // namespace
}  // namespace sluice
