// cast_to_type: MONAI's CastToTyped.
#include "engine/state/dtype.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct CastToType final : EachKey<CastToType> {
  struct Params : KeyParams {
    std::vector<std::string> dtype{"float32"};
  } p;

  static Spec spec() {
    return each_key_spec("cast_to_type", "Gives fields another type of number.", "Fields to cast.")
        .param("dtype", &Params::dtype,
               "The type, one or one a key; fractions are cut off where it is whole.")
        .choices(dtype_names())
        .per("keys")
        .any_device()
        .takes("@keys", Form::any)
        .changes("@keys")
        .dtype("@dtype");
  }

  void change(Field& field, std::size_t i) const {
    field.tensor = field.tensor.to(find_dtype(&Dtype::name, per_key(p.dtype, i))->type);
  }
};

const Register<CastToType> registered;

}  // namespace
}  // namespace sluice
