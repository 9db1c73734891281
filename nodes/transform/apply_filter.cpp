// apply_filter: MONAI's apply_filter, a cross-correlation with a kernel of the sample.
#include "kernels/image/filters.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct ApplyFilterParams : FilterParams {
  std::string kernel_key = "kernel";
};

struct ApplyFilter final : FilterNode<ApplyFilterParams> {
  static Spec spec() {
    Spec s("apply_filter",
           "Each voxel becomes the sum of those around it times a kernel, which is not turned "
           "round; zeros outside. Gradients: image, kernel.");
    add_filter_params<Params>(s)
        .param("kernel_key", &Params::kernel_key,
               "Field with the kernel, odd on each axis: of the spatial axes, with one for the "
               "channels before them, or with members and channels.")
        .takes("@kernel_key", Form::any, 0);
    return on_tape(s);
  }

 protected:
  at::Tensor of(const Sample& sample, FilterBatch& image) const override {
    const at::Tensor kernel = sample.tensor(p.kernel_key);
    const std::int64_t axes = image.axes(), more = kernel.dim() - axes;
    const auto refuse = [&](const std::string& expected) {
      throw shape_error(p.kernel_key, kernel, "; " + expected);
    };
    if (kernel.is_complex()) refuse("a kernel is not complex");
    if (more < 0 || more > 2)
      refuse("an image of " + std::to_string(axes) + " axes needs a kernel of " +
             std::to_string(axes) + " to " + std::to_string(axes + 2));
    for (std::int64_t a = 0; a < kernel.dim(); ++a)
      if (a >= more) {
        if (kernel.size(a) % 2 == 0) refuse("each side of a kernel is odd");
      } else if (const auto n = image.of.size(2 - more + a); kernel.size(a) != n) {
        refuse("the image has " + std::to_string(n) + " on that axis");
      }
    return apply_filter(image.of, kernel);
  }
};

const Register<ApplyFilter> registered;

}  // namespace
}  // namespace sluice
