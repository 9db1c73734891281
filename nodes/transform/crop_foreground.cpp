// crop_foreground: MONAI's CropForegroundd. One box, found in source_key, for all keys.
#include <ATen/Functions.h>

#include "kernels/image/filling.h"
#include "kernels/image/foreground_box.h"
#include "nodes/transform/foreground_crop.h"

namespace sluice {
namespace {

struct CropForeground final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::string source_key = "image";
    std::string select_fn = "is_positive";
    std::optional<std::vector<std::int64_t>> channel_indices;
    std::vector<std::int64_t> margin{0};
    std::vector<std::int64_t> k_divisible{1};
    bool allow_smaller = false, allow_empty = false;
    std::vector<std::string> mode{"constant"};
    double value = 0;
    std::optional<std::string> start_coord_key, end_coord_key;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    Spec s("crop_foreground", "Crops to the box around the foreground of one field.");
    add_cropped_keys<Params>(s, "The field whose foreground counts.")
        .param("select_fn", &Params::select_fn, "What foreground is: > 0 in any channel.")
        .choices({"is_positive"})
        .param("channel_indices", &Params::channel_indices,
               "The channels of source_key whose foreground counts; null: all.");
    return add_margin<Params>(s)
        .param("k_divisible", &Params::k_divisible,
               "Grow the box to multiples of this; one number, or one an axis.")
        .param("allow_smaller", &Params::allow_smaller,
               "Cut a margin that sticks out of the image; otherwise it is padded.")
        .param("allow_empty", &Params::allow_empty,
               "Where there is no foreground, crop to nothing, as MONAI; otherwise it is an error.")
        .param("mode", &Params::mode, "How what sticks out is filled; one, or one a key.")
        .choices(filling_names)
        .per("keys")
        .param("value", &Params::value, "The constant.")
        .param("start_coord_key", &Params::start_coord_key,
               "Field for the box's first voxel, int64 [axes]: below 0 where it sticks out; null: "
               "none.")
        .param("end_coord_key", &Params::end_coord_key, "Field for the voxel after its last.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .per_axis("@keys", "k_divisible")
        .gives("@start_coord_key", Form::any)
        .dtype("int64")
        .when("start_coord_key")
        .gives("@end_coord_key", Form::any)
        .dtype("int64")
        .when("end_coord_key");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field& source = image_field(out, p.source_key);
    const std::optional<Box> box = find_box(source.tensor);
    set_corners(out, box.value_or(Box{}), source.tensor.dim() - 1);
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      const auto axes = field.tensor.dim() - 1;
      if (!box) {
        at::Tensor nothing = field.tensor;
        for (std::int64_t d = 1; d <= axes; ++d) nothing = nothing.narrow(d, 0, 0);
        record(field, nothing, field.geometry().affine, "crop_foreground", numbers(Box{}));
        return;
      }
      const at::Tensor volume = to_volume(field.tensor);
      if (*box == whole(volume)) return;
      record(field,
             from_volume(crop_pad(volume, *box, parse_filling(per_key(p.mode, i)), p.value), axes),
             multiply(field.geometry().affine, box_affine(*box)), "crop_foreground", numbers(*box));
    });
    f.emit(std::move(out));
  }

  void set_corners(Sample& out, const Box& box, std::int64_t axes) const {
    std::vector<std::int64_t> start, end;
    for (std::int64_t d = 0; d < axes; ++d) {
      start.push_back(box.start[d]);
      end.push_back(box.start[d] + box.size[d]);
    }
    const auto meta = std::make_shared<const Meta>();
    if (p.start_coord_key) out.set(*p.start_coord_key, Field(at::tensor(start, at::kLong), meta));
    if (p.end_coord_key) out.set(*p.end_coord_key, Field(at::tensor(end, at::kLong), meta));
  }

  // None: there is no foreground, and that is allowed.
  std::optional<Box> find_box(const at::Tensor& source) const {
    const auto axes = source.dim() - 1;
    const at::Tensor volume = to_volume(source);
    const Shape3 shape = shape_of(volume);
    const auto found = bounding_box_of_positive(chosen(volume));
    if (!found && p.allow_empty) return std::nullopt;
    if (!found) throw no_foreground(p.source_key, source);
    Box box = *found;
    const GrowBox grow{fall_back(p.margin, {0, 0, 0}, axes),
                       fall_back(p.k_divisible, {1, 1, 1}, axes), p.allow_smaller};
    grow(box.start, box.size, shape, axes);
    return box;
  }

  at::Tensor chosen(const at::Tensor& volume) const {
    if (!p.channel_indices) return volume;
    std::vector<at::Tensor> channels;
    for (const std::int64_t c : *p.channel_indices) {
      if (c < -volume.size(0) || c >= volume.size(0))
        throw DataError("\"" + p.source_key + "\" has " + std::to_string(volume.size(0)) +
                        " channels; channel_indices names channel " + std::to_string(c));
      channels.push_back(volume.select(0, c < 0 ? c + volume.size(0) : c));
    }
    if (channels.empty()) throw DataError("channel_indices is an empty list");
    return at::stack(channels);
  }
};

const Register<CropForeground> registered;

}  // namespace
}  // namespace sluice
