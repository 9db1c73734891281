// box_to_mask: MONAI's BoxToMaskd.
#include "nodes/transform/boxes.h"

namespace sluice {
namespace {

struct BoxToMask final : Node {
  struct Params : BoxParams {
    std::vector<std::string> box_mask_keys{"box_mask"}, label_keys{"label"};
    std::string box_ref_image_keys = "image";
    std::int64_t min_fg_label = 0;
    bool ellipse_mask = false;
  } p;

  static Spec spec() {
    return box_spec<Params>("box_to_mask", "Draws boxes as masks, a channel each.",
                            "Boxes [N, 4] or [N, 6] in the standard mode, inside the image.")
        .param("box_mask_keys", &Params::box_mask_keys,
               "Fields for the masks, int16 [N, X, Y(, Z)]: label - min_fg_label + 1 inside, 0 "
               "outside.")
        .length_of("box_keys")
        .param("label_keys", &Params::label_keys, "The boxes' labels, whole numbers [N].")
        .length_of("box_keys")
        .param("box_ref_image_keys", &Params::box_ref_image_keys, "The image that they lie in.")
        .param("min_fg_label", &Params::min_fg_label, "The least label there is.")
        .param("ellipse_mask", &Params::ellipse_mask, "The ellipse within the box alone.")
        .takes("@label_keys", Form::any, 0)
        .takes("@box_ref_image_keys", Form::image, 2, 3)
        .gives("@box_mask_keys", Form::image)
        .dtype("int16");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (std::size_t i = 0; i < p.box_keys.size(); ++i) {
      if (p.allow_missing_keys && !out.has(p.box_keys[i])) continue;
      const at::Tensor& boxes = out.tensor(p.box_keys[i]);
      const at::Tensor& labels = out.tensor(p.label_keys[i]);
      const std::int64_t axes = box_axes(boxes, p.box_keys[i]);
      if (labels.dim() != 1 || labels.size(0) != boxes.size(0))
        throw shape_error(p.label_keys[i], labels,
                          " for " + std::to_string(boxes.size(0)) + " boxes");
      const Field& image = image_of_boxes(out, p.box_ref_image_keys, axes);
      const std::int64_t none = p.min_fg_label - 1;  // becomes 0, with which masks are padded
      at::Tensor masks =
          box_masks(boxes, labels, spatial_shape(image.tensor), none, p.ellipse_mask) - none;
      out.set(p.box_mask_keys[i], Field(std::move(masks), image.meta));
    }
    f.emit(std::move(out));
  }
};

const Register<BoxToMask> registered;

}  // namespace
}  // namespace sluice
