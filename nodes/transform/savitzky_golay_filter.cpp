// savitzky_golay_filter: MONAI's SavitzkyGolayFilter.
#include "kernels/image/filters.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct SavitzkyGolayFilterParams : FilterParams {
  std::int64_t window_length = 5, order = 2, axis = 2;
  std::string mode = "zeros";
};

struct SavitzkyGolayFilter final : FilterNode<SavitzkyGolayFilterParams> {
  static Spec spec() {
    Spec s("savitzky_golay_filter",
           "Along one axis each voxel becomes the value there of the polynomial that fits the "
           "window about it best. Gradients: image.");
    add_window_params<Params>(add_filter_params<Params>(s))
        .param("axis", &Params::axis, "Of a batch: 2 is the first spatial axis.")
        .param("mode", &Params::mode, "What lies outside.")
        .choices(padding_names);
    return on_tape(s);
  }

  void open(const OpenContext&) override { require_window(p.window_length, p.order); }

 protected:
  at::Tensor of(const Sample&, FilterBatch& image) const override {
    return filter_along(image.of, spatial_axis(p.axis, image.of),
                        savitzky_golay_kernel(p.window_length, p.order), p.mode);
  }
};

const Register<SavitzkyGolayFilter> registered;

}  // namespace
}  // namespace sluice
