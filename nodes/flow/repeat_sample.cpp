// repeat_sample: `repeats` of MONAI's ThreadDataLoader: a batch that took long to make is trained
// on several times in a row.
#include "engine/run/registry.h"

namespace sluice {
namespace {

struct RepeatSample final : Node {
  struct Params {
    std::int64_t times = 1;
  } p;

  static Spec spec() {
    return Spec("repeat_sample", "Emits what enters several times, one after the other.")
        .in("sample", "A sample or a batch.")
        .out("sample", "The same, `times` times.")
        .param("times", &Params::times, "How often.")
        .required()
        .at_least(1)
        .expands("times")
        .passes()
        .any_device();
  }

  void process(Firing& f) override {
    f.emit_each(static_cast<std::size_t>(p.times), [same = f.ptr()](std::size_t) { return same; });
  }
};

const Register<RepeatSample> registered;

}  // namespace
}  // namespace sluice
