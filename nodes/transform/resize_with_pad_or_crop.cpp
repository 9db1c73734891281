// resize_with_pad_or_crop: MONAI's ResizeWithPadOrCropd. A centre crop, then a pad.
#include "engine/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

struct ResizeWithPadOrCrop final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::int64_t> spatial_size;
    std::string method = "symmetric";
    std::vector<std::string> mode{"constant"};
    double value = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("resize_with_pad_or_crop", "Crops or pads every axis about its centre to a size.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to fit, each [C, X, Y, Z] or [C, X, Y].")
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less leaves an axis.")
        .required()
        .param("method", &Params::method, "Where padding goes.")
        .choices({"symmetric", "end"})
        .param("mode", &Params::mode, "How padding is filled; one, or one a key.")
        .choices(filling_names)
        .per("keys")
        .param("value", &Params::value, "The constant.")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .fuses(Fuses::moves)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys", "spatial_size");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_pending(out, p.keys, p.allow_missing_keys,
                     [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                       const Box box = centre_box(shape, fall_back(p.spatial_size, shape, axes),
                                                  p.method == "symmetric");
                       if (box == Box{{}, shape}) return;
                       record(field, boxed(box, parse_filling(per_key(p.mode, i)), p.value),
                              "resize_with_pad_or_crop", numbers(box));
                     });
    finish(f, std::move(out));
  }
};

const Register<ResizeWithPadOrCrop> registered;

}  // namespace
}  // namespace sluice
