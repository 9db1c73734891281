// signal_fill_empty: MONAI's SignalFillEmptyd.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalFillEmpty final : SignalNode {
  struct Params : SignalParams {
    double replacement = 0;
  } p;

  static Spec spec() {
    return signal_spec<Params>("signal_fill_empty",
                               "Replaces NaN, and infinity by the largest number.")
        .param("replacement", &Params::replacement, "What stands there then.")
        .any_device();
  }

  void process(Firing& f) override {
    for_each_signal(f, p, [&](const at::Tensor& x) { return at::nan_to_num(x, p.replacement); });
  }
};

const Register<SignalFillEmpty> registered;

}  // namespace
}  // namespace sluice
