// add_label_as_guidance: MONAI's AddLabelAsGuidanced of nuclick.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct AddLabelAsGuidance final : Node {
  struct Params : KeyParams {
    std::string source = "label";
  } p;

  static Spec spec() {
    return each_key_spec<Params>("add_label_as_guidance",
                                 "Adds a label as further channels: 1 where it is above 0.",
                                 "Images, each [C, X, Y(, Z)].")
        .param("source", &Params::source, "The label, on the image's grid.")
        .takes("@keys", Form::image)
        .takes("@source", Form::image)
        .changes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor label = out.tensor(p.source).gt(0);
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& image = field.tensor;
      if (image.dim() != label.dim() || image.sizes().slice(1) != label.sizes().slice(1))
        throw DataError("field \"" + p.source + "\" " + list_text(label.sizes()) +
                        " does not lie on \"" + p.keys[i] + "\" " + list_text(image.sizes()));
      field.tensor = at::cat({image, label.to(image.scalar_type())});
    });
    f.emit(std::move(out));
  }
};

const Register<AddLabelAsGuidance> registered;

}  // namespace
}  // namespace sluice
