// replace_nan: torch.nan_to_num, as bundles' lambdas call it.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct ReplaceNan final : EachKey<ReplaceNan> {
  struct Params : KeyParams {
    double value = 0;
  } p;

  static Spec spec() {
    return each_key_spec("replace_nan",
                         "Puts a number in the place of NaN, and the type's largest numbers in "
                         "that of infinities.",
                         "Fields to change; their type stays.")
        .param("value", &Params::value, "In the place of NaN.")
        .any_device()
        .takes("@keys", Form::any)
        .changes("@keys");
  }

  void change(Field& field, std::size_t) const {
    field.tensor = at::nan_to_num(field.tensor, p.value);
  }
};

const Register<ReplaceNan> registered;

}  // namespace
}  // namespace sluice
