// What the transforms share that crop all keys to the foreground of one field.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/transform.h"

namespace sluice {

template <class P>
Spec& add_cropped_keys(Spec& s, std::string source) {
  return add_image_keys<P>(s, "crop")
      .param("source_key", &P::source_key, std::move(source))
      .takes("@keys", Form::image, 2, 3)
      .takes("@source_key", Form::image, 2, 3)
      .resizes("@keys");
}

template <class P>
Spec& add_margin(Spec& s) {
  return s.per_axis("@keys", "margin")
      .param("margin", &P::margin, "Voxels around the box; one number, or one an axis.")
      .at_least(0);
}

inline DataError no_foreground(const std::string& key, const at::Tensor& source) {
  return DataError("\"" + key + "\" of shape " + list_text(source.sizes()) +
                   " has no foreground: no voxel is above 0");
}

}  // namespace sluice
