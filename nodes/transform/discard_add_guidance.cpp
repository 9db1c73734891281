// discard_add_guidance: MONAI's DiscardAddGuidanced of deepedit.
#include "nodes/transform/deep_edit.h"

namespace sluice {
namespace {

struct DiscardAddGuidance final : Node {
  struct Params {
    std::string image = "image";
    std::int64_t number_intensity_ch = 1, labels = 1;
    double probability = 1;
  } p;

  static Spec spec() {
    return Spec("discard_add_guidance",
                "Empties an image's channels of clicks, or adds empty ones: a network that takes "
                "clicks then segments without.")
        .in("sample")
        .out("sample")
        .param("image", &Params::image, "The image, [C, X, Y] or [C, X, Y, Z].")
        .param("number_intensity_ch", &Params::number_intensity_ch,
               "The channels before the clicks.")
        .at_least(1)
        .param("labels", &Params::labels, "The channels of clicks.")
        .at_least(1)
        .required()
        .param("probability", &Params::probability, "How likely it does so.")
        .range(0, 1)
        .random()
        .takes("@image", Form::image, 2, 3)
        .changes("@image")
        .channels("0");  // that depends on whether they are there
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field image = out.at(p.image);
    require_spatial(image.tensor, p.image);
    if (p.probability < 1 && !f.random().chance(p.probability)) return f.emit(std::move(out));
    const at::Tensor& t = image.tensor;
    std::vector<std::int64_t> shape = t.sizes().vec();
    shape[0] = p.labels;
    const bool there = t.size(0) == p.number_intensity_ch + p.labels;
    image.tensor =
        at::cat({there ? t.narrow(0, 0, p.number_intensity_ch) : t, at::zeros(shape, t.options())});
    out.set(p.image, std::move(image));
    f.emit(std::move(out));
  }
};

const Register<DiscardAddGuidance> registered;

}  // namespace
}  // namespace sluice
