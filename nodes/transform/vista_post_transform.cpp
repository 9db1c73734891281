// vista_post_transform: MONAI's VistaPostTransformd, of classes that were asked for.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct VistaPostTransform final : Node {
  struct Params : KeyParams {
    std::optional<std::string> label_key = "class_vector";
    Params() { keys = {"pred"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("vista_post_transform",
                                 "Makes labels of a map of logits for each prompt: the class of "
                                 "the greatest, 0 where none is above 0.",
                                 "Logits [prompts, ...]; they become [1, ...].")
        .param("label_key", &Params::label_key,
               "Field with the prompts' classes, [prompts]; null: 1, 2, ...")
        .any_device()
        .takes("@keys", Form::image)
        .takes("@label_key", Form::any)
        .changes("@keys")
        .channels("1")
        .dtype("float32");
  }

  void process(Firing& f) override {
    const at::Tensor labels =
        p.label_key ? f.in().tensor(*p.label_key).flatten().to(at::kFloat) : at::Tensor();
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const auto [most, which] = field.tensor.max(0, /*keepdim=*/true);
      at::Tensor label = which.to(at::kFloat) + 1;
      if (labels.defined()) {
        if (labels.numel() != field.tensor.size(0))
          throw shape_error(p.keys[i], field.tensor,
                            ", but \"" + *p.label_key + "\" names " +
                                std::to_string(labels.numel()) + " classes");
        label = labels.to(which.device()).index_select(0, which.flatten()).view(which.sizes());
      }
      field.tensor = label * most.gt(0);
    });
    f.emit(std::move(out));
  }
};

const Register<VistaPostTransform> registered;

}  // namespace
}  // namespace sluice
