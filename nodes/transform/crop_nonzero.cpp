// crop_nonzero: nnU-Net's crop to what is not 0, and what of it is no image (crop_to_nonzero).
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "kernels/image/components.h"
#include "kernels/image/filling.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct CropNonzero final : Node {
  struct Params {
    std::string key = "image", label_key, mask_key;
    std::vector<std::string> more_keys;
    std::int64_t nonzero_label = -1;
  } p;

  static Spec spec() {
    return Spec("crop_nonzero",
                "Crops to the box around the voxels where any channel is not 0, as nnU-Net does.")
        .in("sample")
        .out("sample")
        .param("key", &Params::key, "The image, [C, X, Y, Z] or [C, X, Y].")
        .param("label_key", &Params::label_key,
               "A label of the same extents that is cropped with it; where it is 0 and the image "
               "is 0 outside of its body, it becomes nonzero_label (uint8 becomes int16). Empty: "
               "none.")
        .param("mask_key", &Params::mask_key,
               "A new field, uint8 [1, ...]: 1 in the body, which is what is not 0 and what that "
               "encloses, and where the label is not 0. Empty: none.")
        .param("nonzero_label", &Params::nonzero_label, "What the label has outside of the body.")
        .param("more_keys", &Params::more_keys, "Fields of the same extents, cropped alone.")
        .takes("@key", Form::image, 2, 3)
        .takes("@more_keys", Form::image, 2, 3)
        .takes("@label_key", Form::image, 2, 3)
        .when("label_key")
        .gives("@mask_key", Form::image)
        .when("mask_key")
        .resizes("@key")
        .resizes("@more_keys")
        .resizes("@label_key")
        .when("label_key")
        .changes("@label_key")
        .when("label_key");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field& image = image_field(out, p.key);
    const auto axes = image.tensor.dim() - 1;
    const at::Tensor volume = to_volume(image.tensor);
    const at::Tensor body =
        with_filled_holes(volume.ne(0).any(0).contiguous(), 1, axes).unsqueeze(0);
    const Box box = bounding_box_of_positive(body).value_or(whole(volume));
    at::Tensor inside = crop_pad(body, box, Filling::edge, 0);
    const auto crop_too = [&](const std::string& key) {
      const at::Tensor& tensor = out.tensor(key);
      require_spatial(tensor, key);
      if (spatial_shape(tensor) != spatial_shape(from_volume(volume, axes)))
        throw shape_error(key, tensor, ", \"" + p.key + "\" " + list_text(volume.sizes()));
      crop(out, key, box);
    };
    crop(out, p.key, box);
    for (const std::string& key : p.more_keys) crop_too(key);
    if (!p.label_key.empty()) {
      crop_too(p.label_key);
      inside = inside.logical_or(to_volume(out.tensor(p.label_key)).ne(0).any(0, true));
      mark_outside(out, inside, axes);
    }
    if (!p.mask_key.empty()) {
      Field mask = out.at(p.key);
      mask.tensor = from_volume(inside.to(at::kByte), axes);
      out.set(p.mask_key, std::move(mask));
    }
    f.emit(std::move(out));
  }

 private:
  static void crop(Sample& sample, const std::string& key, const Box& box) {
    Field field = sample.at(key);
    const auto axes = field.tensor.dim() - 1;
    const at::Tensor volume = to_volume(field.tensor);
    if (box == whole(volume)) return;
    record(field, from_volume(crop_pad(volume, box, Filling::edge, 0), axes),
           multiply(field.geometry().affine, box_affine(box)), "crop_nonzero", numbers(box));
    sample.set(key, std::move(field));
  }

  void mark_outside(Sample& sample, const at::Tensor& inside, std::int64_t axes) const {
    Field label = sample.at(p.label_key);
    const at::Tensor from =
        label.tensor.scalar_type() == at::kByte ? label.tensor.to(at::kShort) : label.tensor;
    const at::Tensor outside = from_volume(inside, axes).logical_not();
    label.tensor = at::where(outside, at::scalar_tensor(p.nonzero_label, from.options()), from);
    sample.set(p.label_key, std::move(label));
  }
};

const Register<CropNonzero> registered;

}  // namespace
}  // namespace sluice
