// border_pad: MONAI's BorderPadd.
#include "nodes/transform/padding.h"

namespace sluice {
namespace {

struct BorderPad final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image", "label"}, mode{"constant"};
    std::vector<std::int64_t> spatial_border;
    double value = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("border_pad", "Adds a border to each key.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to pad, each [C, X, Y, Z] or [C, X, Y].")
        .param("spatial_border", &Params::spatial_border,
               "Voxels: one number for every side, one an axis, or two an axis: before the first "
               "voxel and after the last; below 0: 0.")
        .required()
        .length(1, 6)
        .param("mode", &Params::mode, "How the border is filled; one, or one a key.")
        .choices(filling_names)
        .on_device(filling_on_device)
        .per("keys")
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
                       const Box box = grown(shape, static_cast<std::size_t>(axes));
                       if (box == Box{{}, shape}) return;
                       record(field, boxed(box, parse_filling(per_key(p.mode, i)), p.value),
                              "border_pad", numbers(box));
                     });
    finish(f, std::move(out));
  }

  Box grown(const Shape3& shape, std::size_t axes) const {
    const auto& border = p.spatial_border;
    if (border.size() != 1 && border.size() != axes && border.size() != 2 * axes)
      throw DataError("spatial_border " + list_text(border) + " does not go with an image of " +
                      std::to_string(axes) + " spatial axes");
    const auto width = [&](std::size_t axis, std::size_t end) {
      const std::size_t at = border.size() == 2 * axes ? 2 * axis + end : axis;
      return std::max<std::int64_t>(per_key(border, at), 0);
    };
    Box box{{}, shape};
    for (std::size_t d = 0; d < axes; ++d) {
      box.start[d] = -width(d, 0);
      box.size[d] += width(d, 0) + width(d, 1);
    }
    return box;
  }
};

const Register<BorderPad> registered;

}  // namespace
}  // namespace sluice
