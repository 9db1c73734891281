// border_pad: MONAI's BorderPadd.
#include "nodes/transform/padding.h"

namespace sluice {
namespace {

struct BorderPad final : FusedNode {
  struct Params : FillParams {
    std::vector<std::int64_t> spatial_border;
  } p;

  static Spec spec() {
    Spec s("border_pad", "Adds a border to each key.");
    add_image_keys<Params>(s, "pad", 1)
        .param("spatial_border", &Params::spatial_border,
               "Voxels: one number for every side, one an axis, or two an axis: before the first "
               "voxel and after the last; below 0: 0.")
        .required()
        .length(1, 6);
    return add_fill_params(s).resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    fill(out, p, "border_pad", [this](const Shape3& shape, std::int64_t axes) {
      return grown(shape, static_cast<std::size_t>(axes));
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
