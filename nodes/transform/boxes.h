// What the transforms of boxes share: fields [N, 4] or [N, 6] whose rows belong to labels' rows.
#pragma once

#include <ATen/TensorIndexing.h>

#include "engine/state/list_field.h"
#include "kernels/image/boxes.h"
#include "nodes/transform/each_key.h"

namespace sluice {

struct BoxParams {
  std::vector<std::string> box_keys{"box"};
  bool allow_missing_keys = false;
};

template <class P>
Spec box_spec(std::string name, std::string does, std::string boxes) {
  Spec s(std::move(name), std::move(does));
  s.in("sample")
      .out("sample")
      .param("box_keys", &P::box_keys, std::move(boxes))
      .param("allow_missing_keys", &P::allow_missing_keys, allow_missing_doc)
      .takes("@box_keys", Form::any, 0);
  return s;
}

// Calls fn(boxes, axes) -> boxes for each key.
template <class Fn>
void for_each_boxes(Sample& sample, const BoxParams& p, Fn&& fn) {
  for_each_key(sample, p.box_keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
    const std::int64_t axes = box_axes(field.tensor, p.box_keys[i]);
    field.tensor = fn(field.tensor, axes);
  });
}

// The image that boxes lie in; a DataError where it has other axes.
inline const Field& image_of_boxes(const Sample& sample, const std::string& key,
                                   std::int64_t axes) {
  const Field& image = sample.at(key);
  if (image.tensor.dim() - 1 != axes)
    throw shape_error(key, image.tensor, "; its boxes have " + std::to_string(axes) + " axes");
  return image;
}

// The rows of boxes that are kept, or of their labels. What is left is a list: samples have
// different numbers of rows.
inline void keep_rows(Sample& sample, const std::vector<std::string>& keys, const at::Tensor& keep,
                      bool allow_missing) {
  for_each_key(sample, keys, allow_missing, [&](Field& field, std::size_t i) {
    if (field.tensor.dim() < 1 || field.tensor.size(0) != keep.size(0))
      throw shape_error(keys[i], field.tensor, " for " + std::to_string(keep.size(0)) + " boxes");
    at::Tensor rows = field.tensor.index({keep});
    if (is_list(field.geometry()))
      field.tensor = std::move(rows);
    else
      field = list_field(std::move(rows));
  });
}

}  // namespace sluice
