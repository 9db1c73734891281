// remove_repeated_channel: MONAI's RemoveRepeatedChanneld.
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct RemoveRepeatedChannel final : EachKey<RemoveRepeatedChannel> {
  struct Params : KeyParams {
    std::int64_t repeats = 1;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("remove_repeated_channel",
                                 "Keeps every n-th channel: undoes repeat_channel.",
                                 "Fields to change, each [C, ...].")
        .param("repeats", &Params::repeats, "How many times each channel stands there.")
        .required()
        .at_least(1)
        .any_device()
        .takes("@keys", Form::image)
        .changes("@keys");
  }

  void change(Field& field, std::size_t i) const {
    if (field.tensor.dim() < 2)
      throw shape_error(p.keys[i], field.tensor, "; needed are channels and another axis");
    field.tensor = field.tensor.slice(0, {}, {}, p.repeats).contiguous();
  }
};

const Register<RemoveRepeatedChannel> registered;

}  // namespace
}  // namespace sluice
