// spatial_pad: MONAI's SpatialPadd. Pads to at least the given size; larger axes stay.
#include "engine/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct SpatialPad final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::int64_t> spatial_size;
    std::string method = "symmetric";
    std::vector<std::string> mode{"constant"};
    double value = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("spatial_pad", "Pads every axis to at least the given size.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to pad, each [C, X, Y, Z] or [C, X, Y].")
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less leaves an axis.")
        .required()
        .param("method", &Params::method, "Where the padding goes.")
        .choices({"symmetric", "end"})
        .param("mode", &Params::mode, "How it is filled; one, or one a key.")
        .choices(filling_names)
        .per("keys")
        .param("value", &Params::value, "The constant.")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .pads("@keys", "spatial_size");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       Shape3 size = fall_back(p.spatial_size, shape, axes);
                       for (int d = 0; d < 3; ++d) size[d] = std::max(size[d], shape[d]);
                       if (size == shape) return;
                       const Box box = centre_box(shape, size, p.method == "symmetric");
                       record(field, boxed(box, parse_filling(per_key(p.mode, i)), p.value),
                              "spatial_pad", numbers(box));
                     });
    finish(f, std::move(out));
  }
};

const Register<SpatialPad> registered;

}  // namespace
}  // namespace sluice
