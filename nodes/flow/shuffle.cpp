// shuffle: the engine does the work, from this declaration.
#include "engine/run/registry.h"

namespace sluice {
namespace {

struct Shuffle final : Node {
  struct Params {
    std::int64_t window = 16;
  } p;

  static Spec spec() {
    return Spec("shuffle", "Draws the next sample from a window of those that came.")
        .in("sample")
        .out("sample")
        .param("window", &Params::window, "Samples to draw from; it holds back window - 1.")
        .at_least(1)
        .shuffles("window")
        .random()
        .passes()
        .any_device();
  }

  void process(Firing&) override { throw std::logic_error("a shuffle node never fires"); }
};

const Register<Shuffle> registered;

}  // namespace
}  // namespace sluice
