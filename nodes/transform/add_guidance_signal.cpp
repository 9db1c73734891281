// add_guidance_signal: MONAI's AddGuidanceSignald of deepgrow.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "kernels/image/clicks.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct AddGuidanceSignal final : Node {
  struct Params {
    std::string image = "image", guidance = "guidance";
    double sigma = 2;
    std::int64_t number_intensity_ch = 1;
  } p;

  static Spec spec() {
    return Spec("add_guidance_signal",
                "Shows clicks to a network: a channel with a Gaussian at each click on the object, "
                "and one for the clicks beside it.")
        .in("sample")
        .out("sample")
        .param("image", &Params::image,
               "The image, [C, X, Y] or [C, X, Y, Z]; it becomes float32, its first "
               "number_intensity_ch channels and two of clicks.")
        .param("guidance", &Params::guidance, "The clicks, int32 [2, rows, 1 + axes].")
        .param("sigma", &Params::sigma, "Standard deviation of the Gaussians in voxels.")
        .above(0)
        .param("number_intensity_ch", &Params::number_intensity_ch,
               "The channels before the clicks.")
        .at_least(1)
        .takes("@image", Form::image, 2, 3)
        .takes("@guidance", Form::any)
        .changes("@image")
        .channels("@number_intensity_ch+2")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field image = out.at(p.image);
    require_spatial(image.tensor, p.image);
    const at::Tensor& guidance = out.tensor(p.guidance);
    if (guidance.dim() != 3 || guidance.size(2) != image.tensor.dim())
      throw DataError("field \"" + p.guidance + "\" has shape " + list_text(guidance.sizes()) +
                      "; needed is [2, rows, " + std::to_string(image.tensor.dim()) + "]");
    std::vector<at::Tensor> parts{
        image.tensor.narrow(0, 0, std::min(p.number_intensity_ch, image.tensor.size(0)))
            .to(at::kFloat)};
    const std::vector<std::int64_t> extents = spatial_shape(image.tensor);
    for (const at::Tensor& clicks : guidance.unbind())
      parts.push_back(click_signal(clicks, extents, p.sigma).unsqueeze(0));
    image.tensor = at::cat(parts);
    out.set(p.image, std::move(image));
    f.emit(std::move(out));
  }
};

const Register<AddGuidanceSignal> registered;

}  // namespace
}  // namespace sluice
