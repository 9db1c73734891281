// hilbert_transform: MONAI's HilbertTransform, the analytic signal along an axis.
#include "kernels/image/filters.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct HilbertTransformParams : FilterParams {
  std::int64_t axis = 2;
  std::optional<std::int64_t> n;
};

struct HilbertTransform final : FilterNode<HilbertTransformParams> {
  static Spec spec() {
    Spec s("hilbert_transform",
           "The analytic signal along an axis; its real and imaginary part are a last axis. "
           "Gradients: image.");
    add_filter_params<Params>(s)
        .param("axis", &Params::axis, "Of a batch: 2 is the first spatial axis.")
        .param("n", &Params::n,
               "Numbers of the FFT: the axis is cut, or zeros are added; null: its own.")
        .at_least(1);
    return on_tape(s);
  }

 protected:
  at::Tensor of(const Sample&, FilterBatch& image) const override {
    const std::int64_t axis = spatial_axis(p.axis, image.of);
    return hilbert_transform(image.of, axis, p.n.value_or(image.of.size(axis)));
  }
};

const Register<HilbertTransform> registered;

}  // namespace
}  // namespace sluice
