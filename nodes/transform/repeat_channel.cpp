// repeat_channel: MONAI's RepeatChanneld.
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct RepeatChannel final : EachKey<RepeatChannel> {
  struct Params : KeyParams {
    std::int64_t repeats = 1;
  } p;

  static Spec spec() {
    return each_key_spec("repeat_channel", "Repeats every channel, one copy after the other.",
                         "Fields to change, each [C, ...].")
        .param("repeats", &Params::repeats, "How often each channel is there afterwards.")
        .required()
        .at_least(1)
        .any_device()
        .takes("@keys", Form::image)
        .changes("@keys");
  }

  void change(Field& field, std::size_t) const {
    auto shape = field.tensor.sizes().vec();
    shape.insert(shape.begin() + 1, p.repeats);
    field.tensor = field.tensor.unsqueeze(1).expand(shape).flatten(0, 1).contiguous();
  }
};

const Register<RepeatChannel> registered;

}  // namespace
}  // namespace sluice
