// rand_flip: MONAI's RandFlipd. One draw for all keys.
#include <ATen/ops/flip.h>

#include "engine/registry.h"
#include "engine/sample.h"

namespace sluice {
namespace {

struct RandFlip final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    double prob = 0.1;
    std::optional<std::vector<std::int64_t>> spatial_axis;
  } p;

  static Spec spec() {
    return Spec("rand_flip", "Flips all keys along the same spatial axes with one draw.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to flip, each [C, X, Y, Z].")
        .param("prob", &Params::prob, "Probability of a flip.").range(0, 1)
        .param("spatial_axis", &Params::spatial_axis, "Spatial axes, 0 = X; null: all of them.")
        .random();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    if (random.chance(p.prob)) {
      for (const auto& key : p.keys) {
        Field field = out.at(key);
        std::vector<std::int64_t> dims;
        if (p.spatial_axis)
          for (auto a : *p.spatial_axis) dims.push_back(a + 1);
        else
          for (std::int64_t d = 1; d < field.tensor.dim(); ++d) dims.push_back(d);
        field.tensor = at::flip(field.tensor, dims);
        out.set(key, std::move(field));
      }
    }
    f.emit(std::move(out));
  }
};

const Register<RandFlip> registered;

}  // namespace
}  // namespace sluice
