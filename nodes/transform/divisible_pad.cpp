// divisible_pad: MONAI's DivisiblePadd.
#include "engine/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct DivisiblePad final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::int64_t> k;
    std::vector<std::string> mode{"constant"};
    std::string method = "symmetric";
    double value = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("divisible_pad", "Pads every axis to a multiple of a number.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to pad, each [C, X, Y, Z] or [C, X, Y].")
        .param("k", &Params::k, "One number, or one an axis; 0 or less leaves an axis.")
        .required()
        .param("mode", &Params::mode, "How it is filled; one, or one a key.")
        .choices(filling_names)
        .per("keys")
        .param("method", &Params::method, "Where the padding goes.")
        .choices({"symmetric", "end"})
        .param("value", &Params::value, "The constant.")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       const Shape3 k = fall_back(p.k, {1, 1, 1}, axes);
                       Shape3 size = shape;
                       for (int d = 0; d < axes; ++d) size[d] = (shape[d] + k[d] - 1) / k[d] * k[d];
                       if (size == shape) return;
                       const Box box = centre_box(shape, size, p.method == "symmetric");
                       record(field, boxed(box, parse_filling(per_key(p.mode, i)), p.value),
                              "divisible_pad", numbers(box));
                     });
    finish(f, std::move(out));
  }
};

const Register<DivisiblePad> registered;

}  // namespace
}  // namespace sluice
