// Flips and quarter turns of all keys, whether they are drawn or given: P has keys,
// allow_missing_keys and spatial_axis or spatial_axes.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {

// Of the images that `keys` names.
template <class P>
Spec& add_flip_axis(Spec& s, const char* keys = "@keys") {
  return s.param("spatial_axis", &P::spatial_axis, "Spatial axes, 0 = X; null: all of them.")
      .range(-3, 2)
      .axes(keys, "spatial_axis");
}

template <class P>
Spec& add_turn_axes(Spec& s, const char* keys = "@keys") {
  return s.param("spatial_axes", &P::spatial_axes, "From the first towards the second axis.")
      .range(-3, 2)
      .length(2, 2)
      .axes(keys, "spatial_axes")
      .resizes(keys);
}

inline void require_two_axes(const std::vector<std::int64_t>& axes) {
  if (axes.size() != 2 || axes[0] == axes[1])
    throw Error(Exit::usage, "spatial_axes must be two axes, not " + list_text(axes));
}

// What the drawn ones share.
struct RandReorderParams {
  std::vector<std::string> keys{"image", "label"};
  double prob = 0.1;
  bool allow_missing_keys = false;
};

// `verb`: what is done to the fields, of at least so many axes.
inline Spec& add_drawn_keys(Spec& s, const char* verb, int least) {
  using Params = RandReorderParams;
  return add_image_keys<Params>(s, verb, least)
      .param("prob", &Params::prob, std::string("Probability of a ") + verb + ".")
      .range(0, 1)
      .random()
      .rearranging()
      .fuses(Fuses::moves)
      .any_device()
      .takes("@keys", Form::image, least, 3);
}

template <class P>
Reorder flips_of(const P& p, std::int64_t axes) {
  Reorder r;
  for (std::int64_t d = 0; d < axes; ++d) r.flip[d] = !p.spatial_axis;
  if (p.spatial_axis)
    for (const std::int64_t a : *p.spatial_axis) r.flip[spatial_axis(a, axes)] = true;
  return r;
}

// By k quarter turns, from the first of spatial_axes towards the second.
template <class P>
std::pair<int, int> turning_axes(const P& p, std::int64_t axes) {
  const int a = spatial_axis(p.spatial_axes[0], axes), b = spatial_axis(p.spatial_axes[1], axes);
  if (a == b)
    throw DataError("spatial_axes " + list_text(p.spatial_axes) + " are one and the same");
  return {a, b};
}

template <class P>
void flip(Sample& sample, const P& p, const char* name) {
  for_each_pending(
      sample, p.keys, p.allow_missing_keys,
      [&](Field& field, const Shape3&, std::int64_t axes, std::size_t) {
        const Reorder r = flips_of(p, axes);
        // values: for each axis whether it is flipped.
        record(field, reordered(r), name, {r.flip.begin(), r.flip.end()});
      },
      1);
}

// By k quarter turns.
template <class P>
void rotate90(Sample& sample, const P& p, int k, const char* name) {
  for_each_pending(
      sample, p.keys, p.allow_missing_keys,
      [&](Field& field, const Shape3&, std::int64_t axes, std::size_t) {
        const auto [a, b] = turning_axes(p, axes);
        // values: the quarter turns and the two axes.
        record(field, reordered(quarter_turns(k, a, b)), name, {double(k), double(a), double(b)});
      });
}

}  // namespace sluice
