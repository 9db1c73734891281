// What rand_coarse_dropout and rand_coarse_shuffle share: boxes at random places.
#pragma once

#include "engine/run/registry.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/transform.h"

namespace sluice {

struct CoarseParams {
  std::vector<std::string> keys{"image"};
  std::int64_t holes = 1;
  std::vector<std::int64_t> spatial_size;
  std::optional<std::int64_t> max_holes;
  std::optional<std::vector<std::int64_t>> max_spatial_size;
  double prob = 0.1;
  bool allow_missing_keys = false;

  void check() const {
    if (max_holes && *max_holes < holes) throw Error(Exit::usage, "max_holes is below holes");
  }

  std::vector<Box> draw_boxes(Random& random, const Shape3& shape, std::int64_t axes) const {
    const auto between = [&](std::int64_t low, std::int64_t high) {
      if (high <= low) return low;
      return low +
             static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(high - low + 1)));
    };
    std::vector<Box> boxes(static_cast<std::size_t>(between(holes, max_holes.value_or(holes))));
    for (Box& box : boxes) {
      const Shape3 size = fall_back(spatial_size, shape, axes);
      const Shape3 most = max_spatial_size ? fall_back(*max_spatial_size, shape, axes) : size;
      for (std::size_t d = 0; d < 3; ++d) {
        if (most[d] < size[d])
          throw DataError("max_spatial_size " + std::to_string(most[d]) + " of axis " +
                          std::to_string(d) + " is below spatial_size " + std::to_string(size[d]));
        box.size[d] = std::min(between(size[d], most[d]), shape[d]);
        box.start[d] = between(0, shape[d] - box.size[d]);
      }
    }
    return boxes;
  }

  static void check_inside(const std::vector<Box>& boxes, const Shape3& shape,
                           const std::string& key) {
    for (const Box& box : boxes)
      for (std::size_t d = 0; d < 3; ++d)
        if (box.start[d] + box.size[d] > shape[d])
          throw DataError("field \"" + key + "\" is smaller than the first key's");
  }
};

inline Spec& add_coarse_params(Spec& s) {
  using Params = CoarseParams;
  return add_image_keys<Params>(s, "change")
      .param("holes", &Params::holes, "How many boxes; with max_holes, at least.")
      .required()
      .at_least(1)
      .param("spatial_size", &Params::spatial_size,
             "Their size in voxels, one or one an axis; with max_spatial_size, at least; 0 or "
             "less: the whole axis.")
      .required()
      .length(1, 3)
      .param("max_holes", &Params::max_holes, "At most so many boxes, drawn.")
      .at_least(1)
      .param("max_spatial_size", &Params::max_spatial_size, "At most so large, drawn.")
      .length(1, 3)
      .param("prob", &Params::prob, "Probability that a sample is changed.")
      .range(0, 1)
      .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
      .random()
      .takes("@keys", Form::image, 2, 3)
      .per_axis("@keys", "spatial_size")
      .per_axis("@keys", "max_spatial_size");
}

}  // namespace sluice
