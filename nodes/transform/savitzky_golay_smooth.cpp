// savitzky_golay_smooth: MONAI's SavitzkyGolaySmoothd, savitzky_golay_filter of samples.
#include "kernels/image/filters.h"
#include "nodes/transform/each_key.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct SavitzkyGolaySmooth final : EachKey<SavitzkyGolaySmooth> {
  struct Params : KeyParams {
    std::int64_t window_length = 5, order = 2, axis = 1;
    std::string mode = "zeros";
  } p;

  static Spec spec() {
    Spec s = each_key_spec<Params>(
        "savitzky_golay_smooth",
        "Along one axis each voxel becomes the value there of the polynomial that fits the "
        "window about it best.",
        "Fields to change, each [C, ...]; they become float32.");
    return add_window_params<Params>(s)
        .param("axis", &Params::axis, "The axis, 1 for the first spatial one.")
        .at_least(1)
        .param("mode", &Params::mode, "What lies outside.")
        .choices(padding_names)
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext&) override { require_window(p.window_length, p.order); }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i], 1);
    if (field.tensor.is_complex()) throw DataError("field \"" + p.keys[i] + "\" is complex");
    const at::Tensor image = field.tensor.to(at::kFloat).unsqueeze(0);
    field.tensor = filter_along(image, spatial_axis(p.axis + 1, image),
                                savitzky_golay_kernel(p.window_length, p.order), p.mode)
                       .squeeze(0);
  }
};

const Register<SavitzkyGolaySmooth> registered;

}  // namespace
}  // namespace sluice
