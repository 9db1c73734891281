// spatial_crop: MONAI's SpatialCropd.
#include "nodes/transform/cropping.h"

namespace sluice {
namespace {

using Sizes = std::optional<std::vector<std::int64_t>>;

struct SpatialCrop final : FusedNode {
  struct Params : CropParams {
    Sizes roi_center, roi_size, roi_start, roi_end;
  } p;

  static Spec spec() {
    Spec s("spatial_crop", "Crops to a box given by centre and size, or by start and end.");
    return add_crop_params(s)
        .param("roi_center", &Params::roi_center,
               "The voxel in the middle; with fewer numbers than axes the last axes stay whole.")
        .param("roi_size", &Params::roi_size, "Voxels by axis, with roi_center.")
        .param("roi_start", &Params::roi_start, "The first voxel by axis; below 0: 0.")
        .param("roi_end", &Params::roi_end, "The voxel after the last by axis.")
        .one_of("roi_center", "roi_start")
        .resizes("@keys");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (p.roi_center.has_value() != p.roi_size.has_value() ||
        p.roi_start.has_value() != p.roi_end.has_value() || (!p.roi_center && !p.roi_start))
      throw Error(Exit::usage, "roi_center goes with roi_size, and roi_start with roi_end");
    const std::size_t a = first().size(), b = second().size();
    if (a != b && a != 1 && b != 1)
      throw Error(Exit::usage,
                  std::string(p.roi_center ? "roi_center and roi_size" : "roi_start and roi_end") +
                      " have " + std::to_string(a) + " and " + std::to_string(b) +
                      " numbers; one of them may have one for all axes");
    for (std::size_t d = 0; d < std::max(a, b); ++d)
      if (per_key(second(), d) <=
          (p.roi_center ? 0 : std::max<std::int64_t>(per_key(first(), d), 0)))
        throw Error(Exit::usage, "the box ends before it begins on axis " + std::to_string(d));
  }

  void process(Firing& f) override {
    Sample out = f.in();
    crop(out, p, "spatial_crop",
         [this](const Shape3& shape, std::int64_t axes) { return box(shape, axes); });
    finish(f, std::move(out));
  }

  Box box(const Shape3& shape, std::int64_t axes) const {
    const auto given = static_cast<std::int64_t>(std::max(first().size(), second().size()));
    if (given > axes)
      throw DataError("the box has " + std::to_string(given) + " axes, the image " +
                      std::to_string(axes));
    Box box{{}, shape};
    for (std::int64_t d = 0; d < given; ++d) {
      const std::int64_t a = per_key(first(), static_cast<std::size_t>(d)),
                         b = per_key(second(), static_cast<std::size_t>(d));
      const std::int64_t start = std::max<std::int64_t>(p.roi_center ? a - b / 2 : a, 0);
      const std::int64_t end = p.roi_center ? start + b : b;
      box.start[d] = start;
      box.size[d] = std::min(end, shape[d]) - start;
    }
    return box;
  }

 private:
  const std::vector<std::int64_t>& first() const {
    return p.roi_center ? *p.roi_center : *p.roi_start;
  }
  const std::vector<std::int64_t>& second() const {
    return p.roi_center ? *p.roi_size : *p.roi_end;
  }
};

const Register<SpatialCrop> registered;

}  // namespace
}  // namespace sluice
