// mask_intensity: MONAI's MaskIntensityd.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct MaskIntensity final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::string mask_key;
    std::string select_fn = "is_positive";
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("mask_intensity", "Sets what is outside a mask to 0.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to mask, each [C, ...]; their type stays.")
        .param("mask_key", &Params::mask_key, "The mask: one channel, or one for each.")
        .required()
        .param("select_fn", &Params::select_fn,
               "What counts as inside: > 0, or >= 0 (of a label that is -1 outside).")
        .choices({"is_positive", "is_not_negative"})
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image)
        .takes("@mask_key", Form::image);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor mask = f.in().tensor(p.mask_key);
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& x = field.tensor;
      require_mask(mask, x, p.keys[i]);
      const at::Tensor inside = p.select_fn == "is_positive" ? at::gt(mask, 0) : at::ge(mask, 0);
      field.tensor = at::mul(x, inside.to(x.scalar_type()));
    });
    f.emit(std::move(out));
  }
};

const Register<MaskIntensity> registered;

}  // namespace
}  // namespace sluice
