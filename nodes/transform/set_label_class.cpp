// set_label_class: MONAI's SetLabelClassd of nuclick.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct SetLabelClass final : EachKey<SetLabelClass> {
  struct Params : KeyParams {
    std::vector<std::string> keys{"label"};
    std::int64_t offset = -1;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("set_label_class",
                                 "A label map becomes one number, its class: int64 [].",
                                 "Labels of any shape; the largest number is the class.")
        .param("offset", &Params::offset, "Added to the largest number.")
        .takes("@keys", Form::any)
        .gives("@keys", Form::any)
        .dtype("int64");
  }

  void change(Field& field, std::size_t i) const {
    if (field.tensor.numel() == 0) throw DataError("field \"" + p.keys[i] + "\" is empty");
    field.tensor = field.tensor.max().to(at::kLong) + p.offset;
  }
};

const Register<SetLabelClass> registered;

}  // namespace
}  // namespace sluice
