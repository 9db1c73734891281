// What the transforms share that take a box of each key's own shape.
#pragma once

#include "engine/run/registry.h"
#include "nodes/transform/fused.h"

namespace sluice {

struct CropParams {
  std::vector<std::string> keys{"image", "label"};
  bool allow_missing_keys = false;
};

// `verb`: what is done to the fields, of at least so many axes.
inline Spec& add_crop_params(Spec& s, const char* verb = "crop", int least = 1) {
  return add_image_keys<CropParams>(s, verb, least)
      .param("allow_missing_keys", &CropParams::allow_missing_keys, allow_missing_doc)
      .fuses(Fuses::moves)
      .any_device()
      .takes("@keys", Form::image, least, 3);
}

// Each key to box_of(shape, spatial axes), which lies inside of it.
template <class BoxOf>
void crop(Sample& sample, const CropParams& p, const char* name, BoxOf&& box_of) {
  take_box(
      sample, p, name,
      [&](const Shape3& shape, std::int64_t axes, std::size_t i) {
        const Box box = box_of(shape, axes);
        for (int d = 0; d < 3; ++d)
          if (box.size[d] < 1)
            throw DataError("the crop leaves nothing of field \"" + p.keys[i] +
                            "\" of spatial shape " + list_text(shape));
        return box;
      },
      [](const Box& box, std::size_t) { return boxed(box); });
}

// `size` about MONAI's centre, cut to the image.
inline Box box_at_centre(const Shape3& shape, Shape3 size) {
  for (int d = 0; d < 3; ++d) size[d] = std::min(size[d], shape[d]);
  return centre_box(shape, size);
}

// ceil(scale n); one scale, or one an axis, of the parameter `name`.
inline std::vector<std::int64_t> scaled(const std::vector<double>& scale, const Shape3& shape,
                                        std::int64_t axes, const char* name) {
  std::vector<std::int64_t> out;
  for (const double share : one_an_axis(scale, axes, name))
    out.push_back(
        static_cast<std::int64_t>(std::ceil(static_cast<double>(shape[out.size()]) * share)));
  return out;
}

struct RandCropParams : CropParams {
  bool random_center = true, random_size = false;
};

inline Spec& add_rand_crop_params(Spec& s) {
  return s
      .param("random_center", &RandCropParams::random_center, "A random place; else the centre.")
      .param("random_size", &RandCropParams::random_size,
             "Draw each axis from the size to the largest.")
      .random();
}

// A box of `size` to `most`: one size, or one an axis; 0 or less, or more than there are: the axis.
inline Box random_box(Random& random, const RandCropParams& p, const std::vector<std::int64_t>& roi,
                      const std::optional<std::vector<std::int64_t>>& max_roi, const Shape3& shape,
                      std::int64_t axes) {
  Shape3 size = fall_back(roi, shape, axes);
  if (p.random_size) {
    const Shape3 most = max_roi ? fall_back(*max_roi, shape, axes) : shape;
    for (int d = 0; d < axes; ++d) {
      if (size[d] > most[d])
        throw DataError("roi_size " + list_text(size) + " is larger than the largest allowed, " +
                        list_text(most));
      size[d] += static_cast<std::int64_t>(random.integer(most[d] - size[d] + 1));
    }
  }
  Box box = box_at_centre(shape, size);
  if (p.random_center)
    for (int d = 0; d < axes; ++d)
      box.start[d] = static_cast<std::int64_t>(random.integer(shape[d] - box.size[d] + 1));
  return box;
}

// One box for all keys, drawn for the first: draw(shape, axes). They are of one shape.
template <class Draw>
void crop_alike(Sample& sample, const CropParams& p, const char* name, Draw&& draw) {
  std::optional<Box> box;
  Shape3 first{};
  for_each_pending(
      sample, p.keys, p.allow_missing_keys,
      [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
        if (!box) box = draw(first = shape, axes);
        if (shape != first)
          throw DataError("field \"" + p.keys[i] + "\" has spatial shape " + list_text(shape) +
                          ", the first key " + list_text(first));
        if (*box == Box{{}, shape}) return;
        record(field, boxed(*box), name, numbers(*box));
      },
      1);
}

// The size of patches around voxels of the field `key`; larger ones than it are cut to it with
// `allow_smaller`, else refused.
inline Shape3 patch_size(const std::vector<std::int64_t>& spatial_size, const Shape3& shape,
                         std::int64_t axes, bool allow_smaller, const std::string& key) {
  const Shape3 size = fall_back(spatial_size, shape, axes);
  for (int d = 0; d < 3 && !allow_smaller; ++d)
    if (size[d] > shape[d])
      throw DataError("the crop " + list_text(size) + " is larger than \"" + key + "\", " +
                      list_text(shape) + "; see allow_smaller");
  return size;
}

// The patch around a voxel, moved inside of the image.
inline Box patch_box(const Shape3& centre, const Shape3& size, const Shape3& shape) {
  Box box{corrected_start(centre, size, shape), size};
  for (int d = 0; d < 3; ++d) box.size[d] = std::min(size[d], shape[d] - box.start[d]);
  return box;
}

// All keys cropped to it.
inline Sample patch_around(const Sample& in, const CropParams& p, const char* name,
                           const Shape3& centre, const Shape3& size, const Shape3& shape) {
  const Box box = patch_box(centre, size, shape);
  Sample out = in;
  for_each_pending(
      out, p.keys, p.allow_missing_keys,
      [&](Field& field, const Shape3& here, std::int64_t, std::size_t i) {
        if (here != shape)
          throw DataError("field \"" + p.keys[i] + "\" has spatial shape " + list_text(here) +
                          ", the label " + list_text(shape));
        record(field, boxed(box), name, numbers(box));
      },
      1);
  return out;
}

}  // namespace sluice
