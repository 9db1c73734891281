// What zoom and rand_zoom share.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {

struct ZoomParams {
  std::vector<std::string> keys{"image", "label"}, mode{"area"}, padding_mode{"edge"};
  std::vector<bool> align_corners{false};
  bool keep_size = true, allow_missing_keys = false;
};

inline Spec& add_zoom_params(Spec& s) {
  using Params = ZoomParams;
  return s
      .param("mode", &Params::mode, "How it is resized, \"nearest\" for labels; one, or one a key.")
      .choices(resizing_names)
      .on_device(resizing_on_device)
      .per("keys")
      .param("padding_mode", &Params::padding_mode,
             "What is put around a picture that has shrunk; one, or one a key.")
      .choices(filling_names)
      .on_device(filling_on_device)
      .per("keys")
      .param("align_corners", &Params::align_corners,
             "Linear and cubic modes: the outer voxels' centres stay; one, or one a key.")
      .per("keys")
      .param("keep_size", &Params::keep_size, "Crop or pad to the size it had.")
      .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
      .fuses(Fuses::resamples)
      .any_device()
      .takes("@keys", Form::image, 2, 3)
      .resizes("@keys")
      .unless("keep_size", true);
}

// Magnifies all keys by factors_of(spatial axes), a factor an axis.
template <class FactorsOf>
void zoom(Sample& sample, const ZoomParams& p, const char* name, FactorsOf&& factors_of) {
  for_each_pending(sample, p.keys, p.allow_missing_keys,
                   [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
                     const Vec3 factors = factors_of(axes);
                     const std::vector<double> values(factors.begin(), factors.begin() + axes);
                     const bool corners = flag(p.align_corners, i);
                     const Shape3 size = zoomed_shape(shape, axes, factors);
                     PendingStep step =
                         resized(shape, size, parse_resizing(per_key(p.mode, i)), corners);
                     if (!p.keep_size || size == shape)
                       return record(field, std::move(step), name, values);
                     // Resized, and then cropped or filled to the size it had.
                     const Box box = centre_box(size, shape);
                     const Affine affine = multiply(field.geometry().affine,
                                                    multiply(step.to_source, box_affine(box)));
                     record(field, std::move(step), affine, name, values);
                     append(field, boxed(box, parse_filling(per_key(p.padding_mode, i))));
                   });
}

}  // namespace sluice
