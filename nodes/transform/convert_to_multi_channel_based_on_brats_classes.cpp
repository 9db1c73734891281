// convert_to_multi_channel_based_on_brats_classes: MONAI's class of that name.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct ConvertToMultiChannelBasedOnBratsClasses final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    std::int64_t et_label = 4;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("convert_to_multi_channel_based_on_brats_classes",
                "Makes channels tumor core, whole tumor and enhancing tumor of a BraTS label.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Labels [1, X, Y, Z]; they become uint8 [3, X, Y, Z].")
        .param("et_label", &Params::et_label,
               "The enhancing tumor's number, 4 until 2022 and 3 from 2023; 1 is the core's other "
               "part, 2 edema.")
        .at_least(3)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("uint8")
        .channels("3");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& x = one_channel(field.tensor, p.keys[i]);
      const at::Tensor enhancing = at::eq(x, p.et_label);
      const at::Tensor core = at::logical_or(at::eq(x, 1), enhancing);
      const at::Tensor whole = at::logical_or(core, at::eq(x, 2));
      field.tensor = at::cat({core, whole, enhancing}).to(at::kByte);
    });
    f.emit(std::move(out));
  }
};

const Register<ConvertToMultiChannelBasedOnBratsClasses> registered;

}  // namespace
}  // namespace sluice
