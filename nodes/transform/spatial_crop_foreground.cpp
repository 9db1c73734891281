// spatial_crop_foreground: MONAI's SpatialCropForegroundd of deepgrow.
#include "nodes/transform/foreground_crop.h"

namespace sluice {
namespace {

struct SpatialCropForeground final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::string source_key = "label";
    std::vector<std::int64_t> spatial_size, margin{0};
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    Spec s("spatial_crop_foreground",
           "Crops to the box around the foreground of one field, or to spatial_size about the "
           "box's centre where the box is smaller along all axes.");
    add_cropped_keys<Params>(s, "The field whose voxels above 0 count.")
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis. What sticks out of the image is left out.")
        .required()
        .length(1, 3)
        .at_least(1)
        .per_axis("@keys", "spatial_size");
    return add_missing_keys<Params>(add_margin<Params>(s));
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& source = out.tensor(p.source_key);
    require_spatial(source, p.source_key);
    const Box box = find_box(source);
    const std::vector<std::int64_t> shape = spatial_shape(source);
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      if (spatial_shape(field.tensor) != shape)
        throw shape_error(p.keys[i], field.tensor,
                          ", \"" + p.source_key + "\" " + list_text(shape));
      const at::Tensor volume = to_volume(field.tensor);
      if (box == whole(volume)) return;
      record(field, from_volume(crop_pad(volume, box), field.tensor.dim() - 1),
             multiply(field.geometry().affine, box_affine(box)), "spatial_crop_foreground",
             numbers(box));
    });
    f.emit(std::move(out));
  }

 private:
  Box find_box(const at::Tensor& source) const {
    const auto axes = source.dim() - 1;
    const at::Tensor volume = to_volume(source);
    const Shape3 shape = shape_of(volume), margin = fall_back(p.margin, {0, 0, 0}, axes),
                 size = fall_back(p.spatial_size, shape, axes);
    const auto found = bounding_box_of_positive(volume);
    if (!found) throw no_foreground(p.source_key, source);
    Box box = *found;
    bool smaller = true;
    for (int d = 0; d < axes; ++d) {
      const auto low = std::max<std::int64_t>(box.start[d] - margin[d], 0),
                 high = std::min(box.start[d] + box.size[d] + margin[d], shape[d]);
      box.start[d] = low, box.size[d] = high - low;
      smaller &= box.size[d] < size[d];
    }
    for (int d = 0; smaller && d < axes; ++d) {
      const std::int64_t centre = (2 * box.start[d] + box.size[d]) / 2;
      box.start[d] = std::max<std::int64_t>(centre - size[d] / 2, 0);
      box.size[d] = std::min(size[d], shape[d] - box.start[d]);
    }
    return box;
  }
};

const Register<SpatialCropForeground> registered;

}  // namespace
}  // namespace sluice
