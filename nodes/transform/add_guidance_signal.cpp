// add_guidance_signal and add_guidance_signal_deep_edit: MONAI's AddGuidanceSignald of deepgrow and
// AddGuidanceSignalDeepEditd.
#include "engine/run/registry.h"
#include "kernels/image/clicks.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct GuidanceSignal {
  const char *type, *does, *guidance, *gives, *channels;
  double sigma;
};

constexpr GuidanceSignal deepgrow{
    "add_guidance_signal",
    "Shows clicks to a network: a channel with a Gaussian at each click on the object, and one for "
    "the clicks beside it.",
    "The clicks, int32 [2, rows, 1 + axes].",
    "two of clicks",
    "@number_intensity_ch+2",
    2};
constexpr GuidanceSignal deep_edit{
    "add_guidance_signal_deep_edit",
    "Shows clicks on several labels to a network: a channel with Gaussians a label.",
    "The clicks, int32 [labels, rows, 1 + axes].",
    "one a label",
    "0",  // that depends on the clicks
    3};

template <const GuidanceSignal& of>
struct AddGuidanceSignal final : Node {
  struct Params {
    std::string image = "image", guidance = "guidance";
    double sigma = of.sigma;
    std::int64_t number_intensity_ch = 1;
  } p;

  static Spec spec() {
    return Spec(of.type, of.does)
        .in("sample")
        .out("sample")
        .param("image", &Params::image,
               std::string("The image, [C, X, Y] or [C, X, Y, Z]; it becomes float32, its first "
                           "number_intensity_ch channels and ") +
                   of.gives + ".")
        .param("guidance", &Params::guidance, of.guidance)
        .param("sigma", &Params::sigma, "Standard deviation of the Gaussians in voxels.")
        .above(0)
        .param("number_intensity_ch", &Params::number_intensity_ch,
               "The channels before the clicks.")
        .at_least(1)
        .takes("@image", Form::image, 2, 3)
        .takes("@guidance", Form::any)
        .changes("@image")
        .channels(of.channels)
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

const Register<AddGuidanceSignal<deepgrow>> registered_deepgrow;
const Register<AddGuidanceSignal<deep_edit>> registered_deep_edit;

}  // namespace
}  // namespace sluice
