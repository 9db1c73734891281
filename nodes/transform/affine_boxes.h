// What the transforms of boxes between voxels and the world share.
#pragma once

#include "kernels/image/axes.h"
#include "nodes/transform/boxes.h"

namespace sluice {

struct AffineBoxParams : BoxParams {
  std::string box_ref_image_keys = "image";
  bool affine_lps_to_ras = false;
};

inline Spec affine_box_spec(std::string name, std::string does) {
  using Params = AffineBoxParams;
  return box_spec<Params>(std::move(name), std::move(does),
                          "Boxes [N, 4] or [N, 6] in the standard mode.")
      .param("box_ref_image_keys", &Params::box_ref_image_keys, "The image whose affine counts.")
      .param("affine_lps_to_ras", &Params::affine_lps_to_ras,
             "The world's first two axes grow to the left and back, as in DICOM's files.")
      .takes("@box_ref_image_keys", Form::image, 2, 3);
}

struct AffineBoxNode : Node {
  using Params = AffineBoxParams;
  Params p;

  // Of an image's affine, what its boxes are moved by.
  virtual Affine map_of(const Affine& affine) const = 0;

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_boxes(out, p, [&](const at::Tensor& boxes, std::int64_t axes) {
      const Field& image = image_of_boxes(out, p.box_ref_image_keys, axes);
      Affine affine = image.geometry().affine;
      if (p.affine_lps_to_ras) affine = multiply(scaling({-1, -1, 1}), affine);
      return affine_boxes(boxes, map_of(of_axes(affine, axes)));
    });
    f.emit(std::move(out));
  }
};

}  // namespace sluice
