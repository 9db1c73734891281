// What the transforms share that crop patches around random voxels of foreground and background.
#pragma once

#include "kernels/image/foreground.h"
#include "nodes/transform/cropping.h"

namespace sluice {

struct PosNegParams : CropParams {
  std::vector<std::int64_t> spatial_size;
  double pos = 1, neg = 1;
  std::int64_t num_samples = 1;
  std::optional<std::string> image_key;
  double image_threshold = 0;
  bool allow_smaller = false;
};

inline Spec& add_pos_neg(Spec& s) {
  return s
      .param("spatial_size", &PosNegParams::spatial_size,
             "Voxels: one number, or one an axis; 0 or less: the whole axis.")
      .required()
      .param("pos", &PosNegParams::pos,
             "pos / (pos + neg) of the patches have a foreground centre.")
      .at_least(0)
      .param("neg", &PosNegParams::neg, "See pos.")
      .at_least(0)
      .param("num_samples", &PosNegParams::num_samples, "Patches a sample.")
      .at_least(1);
}

inline Spec& add_background_image(Spec& s, const char* name) {
  return s
      .param(name, &PosNegParams::image_key,
             "If set, background is only where this field is above image_threshold.")
      .param("image_threshold", &PosNegParams::image_threshold, "In the image's units.");
}

inline Spec& add_smaller(Spec& s) {
  return s
      .param("allow_smaller", &PosNegParams::allow_smaller,
             "Take the whole axis where the image is smaller than spatial_size.")
      .param("allow_missing_keys", &PosNegParams::allow_missing_keys, allow_missing_doc)
      .expands("num_samples")
      .random()
      .fuses(Fuses::moves);
}

inline void require_a_share(const PosNegParams& p) {
  if (p.pos + p.neg <= 0) throw Error(Exit::usage, "pos and neg are both 0");
}

// num_samples voxels of the pools; where one pool is empty, all are of the other. `key` is the
// field that has none in either.
inline std::vector<Shape3> draw_centres(const PosNegParams& p, const VoxelBits& foreground,
                                        const VoxelBits& background, Random& random,
                                        const Shape3& shape, const std::string& key) {
  double share = p.pos / (p.pos + p.neg);
  if (foreground.count() == 0) share = 0;
  if (background.count() == 0) share = 1;
  if (share == 1 && foreground.count() == 0)
    throw DataError("no crop centre: of the " + list_text(shape) + " voxels of \"" + key +
                    "\" none is foreground, and none background");
  const auto one_of = [&](const VoxelBits& pool) {
    return pool.voxel(random.integer(pool.count()));
  };
  std::vector<Shape3> centres;
  for (std::int64_t i = 0; i < p.num_samples; ++i)
    centres.push_back(random.uniform() < share ? one_of(foreground) : one_of(background));
  return centres;
}

// The same of a label's foreground and background, which are counted once for all patches: a
// volume [C, X, Y, Z] that stands for the field `key`.
inline std::vector<Shape3> draw_centres(const PosNegParams& p, const Sample& in,
                                        const at::Tensor& label, Random& random,
                                        const std::string& key) {
  const Shape3 shape = shape_of(label);
  at::Tensor image;
  if (p.image_key) image = volume_like(in, *p.image_key, shape, key);
  const at::Tensor bits = foreground_bits(label);
  const VoxelBits foreground(bits, shape);
  if (p.neg <= 0 && foreground.count() > 0)
    return draw_centres(p, foreground, {}, random, shape, key);
  const at::Tensor background =
      background_bits(label, bits, image.defined() ? &image : nullptr, p.image_threshold);
  return draw_centres(p, foreground, {background, shape}, random, shape, key);
}

}  // namespace sluice
