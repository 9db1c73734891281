// activations: MONAI's Activationsd.
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include <algorithm>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct Activations final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    bool sigmoid = false, softmax = false;
    std::int64_t spatial_dims = 3;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("activations", "Logits to probabilities.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Logits [C, X, Y, Z] or [N, C, X, Y, Z].")
        .param("sigmoid", &Params::sigmoid, "Each channel by itself: 1 / (1 + exp(-x)).")
        .param("softmax", &Params::softmax, "Over the channels; afterwards, where both are set.")
        .param("spatial_dims", &Params::spatial_dims, "Spatial axes; the channels are before them.")
        .range(1, 3)
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out keys that a sample lacks instead of failing.")
        .any_device()
        .takes("@keys", Form::any)
        .per_axis("@keys", "spatial_dims")
        .changes("@keys")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      // Fewer axes than a sample has: the channels come first, as in MONAI.
      const std::int64_t channel =
          std::max<std::int64_t>(0, field.tensor.dim() - p.spatial_dims - 1);
      if (p.sigmoid) field.tensor = at::sigmoid(field.tensor);
      if (p.softmax) field.tensor = at::softmax(field.tensor, channel);
    });
    f.emit(std::move(out));
  }
};

const Register<Activations> registered;

}  // namespace
}  // namespace sluice
