// clip_box_to_image: MONAI's ClipBoxToImaged.
#include "nodes/transform/boxes.h"

namespace sluice {
namespace {

struct ClipBoxToImage final : Node {
  struct Params : BoxParams {
    std::vector<std::string> label_keys{"label"};
    std::string box_ref_image_keys = "image";
    bool remove_empty = true;
    Params() { box_keys = {"box"}; }
  } p;

  static Spec spec() {
    return box_spec<Params>("clip_box_to_image", "Cuts boxes to an image.",
                            "Boxes [N, 4] or [N, 6] in the standard mode: one field.")
        .param("label_keys", &Params::label_keys, "Fields [N, ...] with a row a box.")
        .param("box_ref_image_keys", &Params::box_ref_image_keys, "The image.")
        .param("remove_empty", &Params::remove_empty,
               "Boxes of which nothing is left go, and their labels too.")
        .takes("@label_keys", Form::any, 0)
        .takes("@box_ref_image_keys", Form::image, 2, 3);
  }

  void open(const OpenContext&) override {
    if (p.box_keys.size() != 1)
      throw Error(Exit::usage, "box_keys must be one field: label_keys belong to it");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    at::Tensor keep;
    for_each_boxes(out, p, [&](const at::Tensor& boxes, std::int64_t axes) {
      const Field& image = image_of_boxes(f.in(), p.box_ref_image_keys, axes);
      const CroppedBoxes cut = crop_boxes(boxes, {}, shape_of(to_volume(image.tensor)));
      if (p.remove_empty) keep = cut.keep;
      return cut.boxes;
    });
    if (keep.defined())
      for (const auto& keys : {p.box_keys, p.label_keys})
        keep_rows(out, keys, keep, p.allow_missing_keys);
    f.emit(std::move(out));
  }
};

const Register<ClipBoxToImage> registered;

}  // namespace
}  // namespace sluice
