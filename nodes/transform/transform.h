// What the transforms share beyond nodes/fields.h: the loop over keys as volumes, and MONAI's
// ways to write ranges and settings.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/graph/spec.h"
#include "kernels/image/resizing.h"
#include "kernels/image/spatial.h"
#include "kernels/image/zoom_rotate.h"
#include "nodes/fields.h"

namespace sluice {

// One number r stands for -r..r; two are the bounds, in any order.
inline std::pair<double, double> bounds(const std::vector<double>& range) {
  if (range.size() == 1) return {-std::abs(range[0]), std::abs(range[0])};
  return {std::min(range[0], range[1]), std::max(range[0], range[1])};
}
inline double draw(Random& random, const std::pair<double, double>& range) {
  return random.uniform(range.first, range.second);
}
inline double draw(Random& random, const std::vector<double>& range) {
  return draw(random, bounds(range));
}

// per_key() for flags.
inline bool flag(const std::vector<bool>& settings, std::size_t i) {
  return !settings.empty() && settings[std::min(i, settings.size() - 1)];
}

// The parameter `name` as a list of one value an axis: one for all of them, or one each.
template <class T>
std::vector<T> one_an_axis(const std::vector<T>& values, std::int64_t axes, const char* name) {
  require_one_an_axis(values.size(), name, axes);
  if (values.size() > 1) return values;
  return std::vector<T>(static_cast<std::size_t>(axes), values[0]);
}

// Of what was drawn for three axes that of the axes there are.
inline std::vector<double> first_axes(const std::vector<double>& drawn, std::int64_t axes) {
  return {drawn.begin(), drawn.begin() + axes};
}

// In how many coordinates neighbours differ: in all, where nothing is said.
inline int connectivity_of(const std::optional<std::int64_t>& given, std::int64_t axes) {
  return static_cast<int>(std::min(given.value_or(axes), axes));
}

// The ports, and `keys`: images of at least so many axes to flip, pad, ..., as `verb` says.
template <class P>
Spec& add_image_keys(Spec& s, const std::string& verb, int least = 2) {
  return s.in("sample").out("sample").param(
      "keys", &P::keys,
      "Fields to " + verb + ", each [C, X, Y, Z]" +
          (least == 1 ? ", [C, X, Y] or a signal [C, X]." : " or [C, X, Y]."));
}

template <class P>
Spec& add_missing_keys(Spec& s) {
  return s.param("allow_missing_keys", &P::allow_missing_keys, allow_missing_doc);
}

// Calls fn(key, field) for each key's image. The field is a copy: fn may set fields of the sample.
template <class Fn>
void for_each_image(const Sample& sample, const std::vector<std::string>& keys, bool allow_missing,
                    Fn&& fn) {
  for (const std::string& key : keys) {
    if (allow_missing && !sample.has(key)) continue;
    const Field field = sample.at(key);
    require_spatial(field.tensor, key);
    fn(key, field);
  }
}

// The field `key` as a volume; a DataError where it has not the spatial shape of the field `other`.
inline at::Tensor volume_like(const Sample& sample, const std::string& key, const Shape3& shape,
                              const std::string& other) {
  const at::Tensor& t = sample.tensor(key);
  require_spatial(t, key);
  const at::Tensor volume = to_volume(t);
  if (shape_of(volume) != shape)
    throw DataError("\"" + key + "\" has shape " + list_text(shape_of(volume)) + ", \"" + other +
                    "\" " + list_text(shape));
  return volume;
}

// As torch's interpolate(), which has no cubic mode of signals.
inline Resizing resizing_of(const std::string& mode, std::int64_t axes) {
  if (mode == "bicubic" && axes == 1) throw DataError("bicubic is for images of two axes");
  return parse_resizing(mode);
}

// Refuses a mask that is not of an image's spatial shape, with one channel or one for each.
inline void require_mask(const at::Tensor& mask, const at::Tensor& image, const std::string& key) {
  if (!mask.defined() || image.dim() != mask.dim() || spatial_shape(image) != spatial_shape(mask) ||
      (mask.size(0) != 1 && mask.size(0) != image.size(0)))
    throw shape_error(key, image,
                      ", the mask " + (mask.defined() ? list_text(mask.sizes()) : "none"));
}

// Calls fn(field, volume [C, X, Y, Z], spatial axes, i) for the i-th key; 2-D images have Z = 1.
template <class Fn>
void for_each_volume(Sample& sample, const std::vector<std::string>& keys, bool allow_missing,
                     Fn&& fn, int least = 2) {
  for_each_key(sample, keys, allow_missing, [&](Field& field, std::size_t i) {
    require_spatial(field.tensor, keys[i], least);
    fn(field, to_volume(field.tensor), field.tensor.dim() - 1, i);
  });
}

}  // namespace sluice
