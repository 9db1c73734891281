// bilateral_filter: MONAI's BilateralFilter, in full or on the permutohedral lattice.
#include "kernels/image/bilateral.h"

#include "kernels/image/lattice.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct BilateralFilterParams : FilterParams {
  double spatial_sigma = 5, color_sigma = 0.5;
  bool fast_approx = true;
};

struct BilateralFilter final : FilterNode<BilateralFilterParams> {
  static Spec spec() {
    Spec s("bilateral_filter",
           "Smooths an image where its colours are alike; edges stay. Gradients: image (with "
           "fast_approx the colours that say what is alike count as constant).");
    add_filter_params<Params>(s)
        .param("spatial_sigma", &Params::spatial_sigma,
               "In voxels, the same on all axes. In full the window is 5 sigma wide; outside of "
               "the image its border goes on.")
        .above(0)
        .param("color_sigma", &Params::color_sigma, "In the image's units.")
        .above(0)
        .param("fast_approx", &Params::fast_approx,
               "true: on the permutohedral lattice, in time that does not grow with the sigmas; "
               "false: the sum over the window.");
    return on_tape(s).any_device();
  }

 protected:
  at::Tensor of(const Sample&, FilterBatch& image) const override {
    if (!p.fast_approx)
      return bilateral(image.of, image.of, at::scalar_tensor(p.spatial_sigma, at::kDouble),
                       at::scalar_tensor(p.color_sigma, at::kDouble), Neighbours::clamped);
    std::vector<double> sigmas(image.of.size(1), p.color_sigma);
    sigmas.resize(sigmas.size() + image.axes(), p.spatial_sigma);
    return Lattices(at::cat({image.of.detach(), coordinates(image.of)}, 1), sigmas)
        .filter(image.of);
  }
};

const Register<BilateralFilter> registered;

}  // namespace
}  // namespace sluice
