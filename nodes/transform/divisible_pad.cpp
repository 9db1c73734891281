// divisible_pad: MONAI's DivisiblePadd.
#include "nodes/transform/padding.h"

namespace sluice {
namespace {

struct DivisiblePad final : FusedNode {
  struct Params : PadParams {
    std::vector<std::int64_t> k;
  } p;

  static Spec spec() {
    Spec s("divisible_pad", "Pads every axis to a multiple of a number.");
    add_image_keys<Params>(s, "pad", 1)
        .param("k", &Params::k, "One number, or one an axis; 0 or less leaves an axis.")
        .required();
    return add_pad_params(s).per_axis("@keys", "k").resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    pad(out, p, "divisible_pad", [this](Shape3 size, std::int64_t axes) {
      const Shape3 k = fall_back(p.k, {1, 1, 1}, axes);
      for (int d = 0; d < axes; ++d) size[d] = (size[d] + k[d] - 1) / k[d] * k[d];
      return size;
    });
    finish(f, std::move(out));
  }
};

const Register<DivisiblePad> registered;

}  // namespace
}  // namespace sluice
