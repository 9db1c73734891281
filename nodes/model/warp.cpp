// warp: MONAI's Warp, an image moved by a displacement field.
#include "kernels/image/warp.h"

#include "engine/base/error.h"
#include "nodes/model/displacements.h"

namespace sluice {
namespace {

struct WarpParams {
  std::string key = "image", ddf_key = "ddf", mode = "bilinear", padding_mode = "border";
  std::optional<std::string> output_key;
};

struct Warp final : Node {
  using Params = WarpParams;
  Params p;

  static Spec spec() {
    Spec s("warp",
           "Samples an image where displacements, in voxels of the array's axes, point to. With "
           "gradients for both, so that it may stand between model and loss.");
    s.in("sample")
        .out("sample")
        .param("key", &Params::key, "Field with the image, [N, C, X, Y(, Z)] or [C, X, Y(, Z)].")
        .param("ddf_key", &Params::ddf_key,
               "Field with the displacements, one channel an axis, of the image's extents.")
        .param("output_key", &Params::output_key, "Field for the moved image; null: in its place.")
        .param("mode", &Params::mode,
               "Between voxels. nearest has no gradient for the displacements.")
        .choices({"bilinear", "nearest"})
        .takes("@key", Form::any)
        .takes("@ddf_key", Form::any);
    return add_padding<Params>(s)
        .gives("@output_key", Form::any)
        .like("@key")
        .when("output_key")
        .changes("@key")
        .when("output_key", nullptr, true);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field field = out.at(p.key);
    const Displaced d(f.in(), p.ddf_key);
    const at::Tensor image = d.batched(field.tensor);
    if (image.size(0) != d.field.size(0) || image.sizes().slice(2) != d.field.sizes().slice(2))
      throw DataError("\"" + p.key + "\" " + c10::str(field.tensor.sizes()) + " and \"" +
                      p.ddf_key + "\" " + c10::str(f.in().tensor(p.ddf_key).sizes()) +
                      " differ in members or extents");
    const auto outside = outside_of(p.padding_mode);
    field.tensor = d.as_given(p.mode == "nearest" ? torch_warp(image, d.field, true, outside)
                                                  : sluice::warp(image, d.field, outside));
    out.set(p.output_key.value_or(p.key), std::move(field));
    f.emit(std::move(out));
  }
};

const Register<Warp> registered;

}  // namespace
}  // namespace sluice
