// generate_watershed_mask: MONAI's GenerateWatershedMaskd.
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct GenerateWatershedMask final : Node {
  struct Params {
    std::string key = "nucleus_prediction", mask_key = "mask", activation = "softmax";
    std::optional<double> threshold;
    std::int64_t min_object_size = 10;
  } p;

  static Spec spec() {
    Spec s("generate_watershed_mask", "Where nuclei are: 1, without small components.");
    s.in("sample")
        .out("sample")
        .param("key", &Params::key, "Logits, [C, X, Y].")
        .param("mask_key", &Params::mask_key, "Field for the mask, uint8 [1, X, Y].")
        .param("min_object_size", &Params::min_object_size, "Pixels that a component has at least.")
        .at_least(0)
        .takes("@key", Form::image, 2, 2)
        .gives("@mask_key", Form::image)
        .dtype("uint8");
    return add_activation<Params>(s);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& logits = logits_of(out, p.key, p.activation);
    const auto meta = out.at(p.key).meta;
    out.set(p.mask_key, Field(nuclei_mask(logits, p.activation == "softmax",
                                          p.threshold.value_or(0.5), p.min_object_size),
                              meta));
    f.emit(std::move(out));
  }
};

const Register<GenerateWatershedMask> registered;

}  // namespace
}  // namespace sluice
