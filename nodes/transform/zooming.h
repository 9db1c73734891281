// What zoom, rand_zoom and rand_zoom_box share.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {

struct ZoomParams {
  std::vector<std::string> keys{"image", "label"}, mode{"area"}, padding_mode{"edge"};
  std::vector<bool> align_corners{false};
  bool keep_size = true, allow_missing_keys = false;
};

// How the fields that the parameter `keys` names are resized.
inline Spec& add_resizing_params(Spec& s, const std::string& keys) {
  using Params = ZoomParams;
  return s
      .param("mode", &Params::mode, "How it is resized, \"nearest\" for labels; one, or one a key.")
      .choices(resizing_names)
      .on_device(resizing_on_device)
      .per(keys)
      .param("padding_mode", &Params::padding_mode,
             "What is put around a picture that has shrunk; one, or one a key.")
      .choices(filling_names)
      .on_device(filling_on_device)
      .per(keys)
      .param("align_corners", &Params::align_corners,
             "Linear and cubic modes: the outer voxels' centres stay; one, or one a key.")
      .per(keys)
      .param("keep_size", &Params::keep_size, "Crop or pad to the size it had.")
      .fuses(Fuses::resamples);
}

inline Spec& add_zoom_params(Spec& s) {
  return add_resizing_params(s, "keys")
      .param("allow_missing_keys", &ZoomParams::allow_missing_keys, allow_missing_doc)
      .any_device()
      .takes("@keys", Form::image, 1, 3)
      .resizes("@keys")
      .unless("keep_size", true);
}

struct RandZoomParams : ZoomParams {
  double prob = 0.1;
  std::vector<double> min_zoom{0.9}, max_zoom{1.1};
};

template <class P>
Spec& add_rand_zoom_params(Spec& s) {
  return s.param("prob", &P::prob, "Probability of a zoom.")
      .range(0, 1)
      .param("min_zoom", &P::min_zoom,
             "Smallest factors: one for all axes, one an axis, or of two the first for X and Y.")
      .above(0)
      .length(1, 3)
      .param("max_zoom", &P::max_zoom, "Largest factors, as many; one draw each.")
      .above(0)
      .length_of("min_zoom")
      .random();
}

inline std::vector<double> drawn_factors(Random& random, const RandZoomParams& p) {
  std::vector<double> drawn;
  for (std::size_t i = 0; i < p.min_zoom.size(); ++i)
    drawn.push_back(random.uniform(p.min_zoom[i], per_key(p.max_zoom, i)));
  return drawn;
}

// Of what was drawn, a factor an axis.
inline Vec3 factors_of_axes(const std::vector<double>& drawn, std::int64_t axes) {
  Vec3 factors{drawn.front(), drawn.front(), drawn.front()};
  const bool shared = drawn.size() == 2 && axes == 3;  // X and Y share the first
  if (shared) factors[2] = drawn[1];
  if (!shared) require_one_an_axis(drawn.size(), "min_zoom", axes);
  for (std::size_t d = 0; d < drawn.size() && !shared; ++d) factors[d] = drawn[d];
  return factors;
}

// Magnifies all keys by factors_of(spatial axes), a factor an axis.
template <class FactorsOf>
void zoom(Sample& sample, const ZoomParams& p, const char* name, FactorsOf&& factors_of) {
  for_each_pending(
      sample, p.keys, p.allow_missing_keys,
      [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
        const Vec3 factors = factors_of(axes);
        std::vector<double> values(factors.begin(), factors.begin() + axes);
        const Resizing mode = resizing_of(per_key(p.mode, i), axes);
        const bool corners = flag(p.align_corners, i);
        values.push_back(corners);
        const Shape3 size = zoomed_shape(shape, axes, factors);
        PendingStep step = resized(shape, size, mode, corners);
        if (!p.keep_size || size == shape) return record(field, std::move(step), name, values);
        // Resized, and then cropped or filled to the size it had.
        const Box box = centre_box(size, shape);
        const Affine affine =
            multiply(field.geometry().affine, multiply(step.to_source, box_affine(box)));
        record(field, std::move(step), affine, name, values);
        append(field, boxed(box, parse_filling(per_key(p.padding_mode, i))));
      },
      1);
}

}  // namespace sluice
