// add_guidance_signal: MONAI's AddGuidanceSignald of deepgrow.
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
    image.tensor =
        with_click_signals(image.tensor, out.tensor(p.guidance), p.number_intensity_ch, p.sigma);
    out.set(p.image, std::move(image));
    f.emit(std::move(out));
  }
};

const Register<AddGuidanceSignal> registered;

}  // namespace
}  // namespace sluice
