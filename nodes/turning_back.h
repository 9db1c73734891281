// What invert and test_time_augmentation share: a field brought back to a grid it had, by its
// history, the last step first, as MONAI's inverse does it.
//
//   history   orientation  spacing    crop
//   undone    moved        sampled    moved, 0 where it cut
//
// What moved whole voxels is undone by moving them back. What sampled is sampled again, with the
// padding and align_corners that it had. A zoom's crop or pad is undone, and then its resize.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/augment/pending.h"
#include "kernels/image/way_back.h"
#include "kernels/image/zoom_rotate.h"
#include "nodes/fields.h"
#include "nodes/sampling_record.h"

namespace sluice {

struct TurningBack {
  Interpolation mode = Interpolation::nearest;
  std::optional<Resizing> resizing;  // of resizes and zooms; none: by `mode`
  bool lazy = false;                 // resamplings that meet become one (pending.h)
};

// Of a transform that samples between voxels: as with_sampling() has recorded it, by `mode`.
inline std::optional<Sampling> sampling_of(const Applied& step, Interpolation mode) {
  static constexpr std::array<std::string_view, 10> sampling{
      "affine",      "rand_affine", "rand_2d_elastic", "rand_elastic",     "rotate",
      "rand_rotate", "spacing",     "rand_spacing",    "spatial_resample", "resample_to_match"};
  if (std::ranges::find(sampling, step.transform) == sampling.end() || step.values.size() < 2)
    return std::nullopt;
  Sampling how{mode};
  read_sampling(step.values, how);
  return how;
}

// Of transforms that lay PyTorch's grid, forwards and back.
inline bool has_aligned_grid(const Applied& step) {
  return step.transform == "spacing" || step.transform == "spatial_resample" ||
         step.transform == "resample_to_match";
}

// A resize's recorded values are the sizes, a zoom's the factors, and then whether corners were
// aligned.
inline bool was_zoom(const Applied& step) {
  return step.transform == "zoom" || step.transform == "rand_zoom" ||
         step.transform == "rand_zoom_box";
}
inline bool was_resized(const Applied& step) {
  return step.transform == "resize" || was_zoom(step);
}

inline void undo_resize(Pending& work, const Applied& step, const Shape3& before, Affine to_source,
                        const TurningBack& how) {
  const auto axes = static_cast<std::int64_t>(step.shape_before.size());
  if (was_zoom(step)) {
    Vec3 factors{1, 1, 1};
    std::copy_n(step.values.begin(), axes, factors.begin());
    const Shape3 zoomed = zoomed_shape(before, axes, factors);
    if (zoomed != work.shape()) {
      Box back{centre_box(zoomed, before).start, zoomed};
      for (std::int64_t& start : back.start) start = -start;
      to_source = multiply(inverse(box_affine(back)), to_source);
      work.add(boxed(back));
    }
  }
  if (!how.resizing) return work.add(resampled(to_source, before, {how.mode, Padding::border}));
  const bool align = std::ssize(step.values) > axes && step.values.back() != 0;
  work.add(resized(work.shape(), before, *how.resizing, align));
}

// `affine`: the one behind the step.
inline void undo(Pending& work, const Applied& step, const Affine& affine, const TurningBack& how) {
  Shape3 before{1, 1, 1};
  std::copy_n(step.shape_before.begin(), std::min<std::size_t>(step.shape_before.size(), 3),
              before.begin());
  const Affine to_source = multiply(inverse(affine), step.affine_before);
  if (was_resized(step)) return undo_resize(work, step, before, to_source, how);
  if (const std::optional<Sampling> sampling = sampling_of(step, how.mode)) {
    const bool aligned = sampling->align_corners && has_aligned_grid(step);
    return work.add(resampled(
        aligned ? on_aligned_grid(to_source, work.shape(), before) : to_source, before, *sampling));
  }
  const std::optional<WayBack> moved = way_back(to_source, work.shape());
  if (!moved) return work.add(resampled(to_source, before, {how.mode, Padding::border}));
  if (!(moved->order == Reorder{})) work.add(reordered(moved->order));
  const Box box{moved->start, before};
  if (box != Box{{}, work.shape()}) work.add(boxed(box));
}

// [C, ...] as it was behind its first `steps` steps. It has the axes that it had then, also those
// that a transform took away.
inline Field turned_back(const Field& field, std::size_t steps, const TurningBack& how) {
  auto meta = std::make_shared<Meta>(field.geometry());
  if (meta->history.size() <= steps) return field;
  Pending work(to_volume(field.tensor));
  while (meta->history.size() > steps) {
    const Applied& last = meta->history.back();
    undo(work, last, meta->affine, how);
    meta->affine = last.affine_before;
    if (meta->history.size() == steps + 1) break;
    meta->history.pop_back();
  }
  const std::int64_t axes = std::ssize(meta->history.back().shape_before);
  meta->history.pop_back();
  return Field(from_volume(work.done(how.lazy), axes), std::move(meta));
}

}  // namespace sluice
