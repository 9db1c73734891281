// A list of augmentations becomes one AugmentJob: each call adds what a transform node would do.
//
//   AugmentChain chain(view, 3);
//   chain.crop(start, size) && chain.reorder(flip) && chain.affine(m, size, how) &&
//       chain.add({AugmentKind::linear, -1, {1.1f, 0}}) && ...
//   AugmentJob job = chain.job(output);
//
// A call returns false, and changes nothing, where the step cannot be part of the same job: then
// the job so far writes its result and a chain begins anew from that.
//
// Invariant: with one interpolation or none, and padding inside the crop as the nodes have it, the
// job equals the nodes one after the other, exactly. A second interpolation is not done: the two
// maps are composed and the volume is sampled once, with the first one's mode and padding. That is
// sharper, and beyond the volume's border it may differ.
#pragma once

#include <array>
#include <vector>

#include "kernels/augment/augment_job.h"
#include "kernels/image/affine.h"

namespace sluice::kernels {

// A contiguous volume [C, X, Y, Z], or an image [C, X, Y] with Z = 1.
AugmentView view_of(const void* data, VoxelType type, std::int64_t channels, const Shape3& shape);
AugmentOutput output_of(void* data, VoxelType type, std::int64_t channels, const Shape3& shape,
                        bool channels_last = false);

class AugmentChain {
 public:
  // `axes` is 2 or 3; an image's axes are those of a volume with Z = 1.
  AugmentChain(const AugmentView& volume, int axes);

  struct Resampling {
    Interpolation mode = Interpolation::linear;
    Padding padding = Padding::border;
  };
  struct Nodes {  // kernels/image/resample.h's Displacement
    const float* data = nullptr;
    Shape3 count{};
    int step = 1;
  };

  // `fill` where the box sticks out.
  bool crop(const Shape3& start, const Shape3& size, float fill = 0);
  bool reorder(const Reorder& r);  // flips, quarter turns, permutations
  bool affine(const Affine& to_source, const Shape3& shape, const Resampling& how);
  bool elastic(const Affine& to_source, const Shape3& shape, const Resampling& how,
               const Nodes& nodes);
  bool add(const AugmentOp& op);                           // what has no function of its own
  bool bias(const std::vector<double>& coefficients);      // kernels/image/bias_field.h, degree 3
  bool blur(const std::vector<std::vector<float>>& taps);  // weights of the first axes
  bool low_resolution(const Shape3& size);
  bool hole(const Shape3& start, const Shape3& size, float value);

  int interpolations() const { return interpolations_; }
  Shape3 shape() const;  // of the result
  // The output is of that shape.
  AugmentJob job(const AugmentOutput& out) const;

 private:
  bool resample(const Affine& to_source, const Shape3& shape, const Resampling& how,
                const Nodes& nodes);
  void crop_moves(const std::array<std::int64_t, 3>& start);
  void reorder_moves(const Reorder& r);
  Reorder inner(const Reorder& r) const;
  Shape3 inner(const Shape3& s) const;
  Affine inner(const Affine& m) const;
  int axis(int a) const { return flat_ ? (a + 1) % 3 : a; }  // an image's Z goes to the front

  AugmentJob job_;
  Shape3 shape_{};  // in the job's order of axes
  bool flat_ = false, padded_ = false;
  bool placed_ = false;  // an operation that depends on a voxel's place stands already
  bool valued_ = false;  // any operation does
  bool blurred_ = false, biased_ = false;
  int interpolations_ = 0;
};

}  // namespace sluice::kernels
