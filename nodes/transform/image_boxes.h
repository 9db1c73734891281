// What the transforms share that move images and the boxes that lie in them.
#pragma once

#include "nodes/transform/boxes.h"
#include "nodes/transform/reordering.h"

namespace sluice {

struct ImageBoxParams {
  std::vector<std::string> keys{"image"}, box_keys{"box"}, box_ref_image_keys{"image"};
  bool allow_missing_keys = false;
};

template <class P>
Spec image_box_spec(std::string name, std::string does) {
  Spec s(std::move(name), std::move(does));
  s.in("sample")
      .out("sample")
      .param("image_keys", &P::keys, "Images, each [C, X, Y, Z] or [C, X, Y].")
      .param("box_keys", &P::box_keys, "Boxes [N, 4] or [N, 6] in the standard mode.")
      .param("box_ref_image_keys", &P::box_ref_image_keys,
             "The images that they lie in, as these come here; one, or one a key.")
      .per("box_keys")
      .param("allow_missing_keys", &P::allow_missing_keys, allow_missing_doc)
      .takes("@image_keys", Form::image, 2, 3)
      .takes("@box_keys", Form::any, 0)
      .takes("@box_ref_image_keys", Form::image, 2, 3)
      .fuses(Fuses::moves);
  return s;
}

// The boxes, before their image is moved: as reorder_of(spatial axes) will move it.
template <class P, class ReorderOf>
void reorder_boxes_of(Sample& sample, const P& p, ReorderOf&& reorder_of) {
  for_each_key(sample, p.box_keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
    const std::int64_t axes = box_axes(field.tensor, p.box_keys[i]);
    const Field& image = image_of_boxes(sample, per_key(p.box_ref_image_keys, i), axes);
    field.tensor = reorder_boxes(field.tensor, reorder_of(axes), shape_of(image));
  });
}

// A node that turns images, and the boxes in them, by quarter turns.
struct TurningBoxes : FusedNode {
 protected:
  template <class P>
  void turn_with_boxes(Firing& f, const P& p, int k, const char* name) const {
    Sample out = f.in();
    reorder_boxes_of(out, p, [&](std::int64_t axes) {
      const auto [a, b] = turning_axes(p, axes);
      return quarter_turns(k, a, b);
    });
    rotate90(out, p, k, name);
    finish(f, std::move(out));
  }
};

}  // namespace sluice
