// as_discrete: MONAI's AsDiscreted. What it does it does in this order: argmax, one-hot, threshold.
#include <ATen/ops/argmax.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/image/labels.h"
#include "kernels/image/one_hot.h"

namespace sluice {
namespace {

struct AsDiscrete final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    bool argmax = false;
    std::optional<std::int64_t> to_onehot;
    std::optional<double> threshold;
    bool strict = false;
  } p;

  static Spec spec() {
    return Spec("as_discrete", "Turns values into labels: argmax, one-hot, threshold.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields [C, X, Y, Z]; for a threshold alone batches of them too.")
        .param("argmax", &Params::argmax, "Index of the largest channel, [1, X, Y, Z].")
        .param("to_onehot", &Params::to_onehot, "Number of classes to spread labels over.")
        .at_least(1)
        .param("threshold", &Params::threshold, "1 where the value is at least this, else 0.")
        .param("strict", &Params::strict, "1 only where the value is above the threshold.")
        .any_device()
        .takes("@keys", Form::any)
        .takes("@keys", Form::image)
        .when("argmax", true)
        .takes("@keys", Form::image)
        .when("to_onehot")
        .changes("@keys")
        .dtype("float32")
        .changes("@keys")
        .channels("1")
        .when("argmax", true)
        .changes("@keys")
        .channels("@to_onehot")
        .when("to_onehot");
  }

  at::Tensor discrete(at::Tensor t) const {
    if (p.argmax) t = t.size(0) <= 256 ? kernels::argmax_channels(t) : at::argmax(t, 0, true);
    if (p.to_onehot) {
      if (t.size(0) != 1)
        throw DataError("to_onehot wants one channel, found " + std::to_string(t.size(0)));
      t = one_hot(t.unsqueeze(0), *p.to_onehot, at::kFloat).squeeze(0);
    }
    if (p.threshold) t = p.strict ? at::gt(t, *p.threshold) : at::ge(t, *p.threshold);
    return t.to(at::kFloat);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (const auto& key : p.keys) {
      Field field = out.at(key);
      field.tensor = discrete(field.tensor);
      out.set(key, std::move(field));
    }
    f.emit(std::move(out));
  }
};

const Register<AsDiscrete> registered;

}  // namespace
}  // namespace sluice
