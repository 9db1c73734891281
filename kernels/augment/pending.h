// What transforms are to do to one tensor, written down by each of them and done by the last.
//
//   crop, flip | affine, crop, turn | affine ... | noise, scale
//     a copy      one resampling                   in the pass before (on the host: in place)
//
// Flips, turns by right angles and crops between two resamplings are one copy; a crop after a
// resampling is all of it that is resampled. With `lazy` resamplings that meet become one, as with
// MONAI's lazy transforms: their maps are multiplied and the volume is sampled once, with the first
// one's padding. That is sharper, and not what one after the other gives.
//
// A source may be kept in a narrower type than it stands for (narrow.h): it is moved as it is kept
// and widened at the end.
//
// The time of each pass is booked to the nodes whose steps it does (engine/base/borrowed_time.h).
//
// Invariant: without `lazy`, and with it where there is but one resampling, the result on the host
// is that of the steps one after the other to the bit. On a device coordinates differ in the last
// bits of a float.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/augment/augment_job.h"
#include "kernels/image/filling.h"
#include "kernels/image/resample.h"
#include "kernels/image/resizing.h"

namespace sluice {

struct PendingStep {
  enum class Kind : std::uint8_t { reorder, box, resample, values } kind;
  Reorder order;
  Box box;  // outside of the volume: filled
  Filling filling = Filling::constant;
  double value = 0;
  Affine to_source{};
  Shape3 shape{};
  Sampling how;
  struct Resized {
    Resizing mode = Resizing::linear;
    bool align_corners = false;
  };
  std::optional<Resized> resized;        // on the host in resize()'s arithmetic
  std::optional<Displacement> by;        // of resample
  std::vector<kernels::AugmentOp> ops;   // of values: all of them or none in one job
  std::vector<std::vector<float>> taps;  // of a blur among them, by axis
  std::vector<double> bias;              // of a bias: kernels::bias_terms
  std::vector<Box> holes;                // of holes, one an op, whose a6 is the value
  const char* limited = nullptr;         // in words what no job does, where none does this step
  // And on the host: float32, into `into` where that is defined, which may be `from` itself if the
  // change is made in place.
  using Change = std::function<at::Tensor(const at::Tensor& from, const at::Tensor& into)>;
  Change change;
  bool in_place = true;
  int owner = -1;  // the position in its run of the node that asked for it (Owners)

  // Output -> source voxels, and the result's shape, for a volume of shape `from`.
  Affine map(const Shape3& from) const;
  Shape3 result(const Shape3& from) const;
};

PendingStep reordered(const Reorder& r);
PendingStep boxed(const Box& box, Filling filling = Filling::constant, double value = 0);
PendingStep resampled(const Affine& to_source, const Shape3& shape, const Sampling& how);
PendingStep resampled(const Affine& to_source, const Displacement& by, const Shape3& shape,
                      const Sampling& how);
PendingStep resized(const Shape3& from, const Shape3& shape, Resizing mode, bool align_corners);
PendingStep changed(std::vector<kernels::AugmentOp> ops, PendingStep::Change change);
// Not in place.
PendingStep filtered(std::vector<kernels::AugmentOp> ops, PendingStep::Change change);

class Pending {
 public:
  explicit Pending(const at::Tensor& tensor);  // [C, X(, Y(, Z))]
  Pending(const at::Tensor& kept, at::ScalarType stands_for);

  void add(PendingStep step);  // asked for by the node whose body this is
  const at::Tensor& source() const { return source_; }
  const std::vector<PendingStep>& steps() const { return steps_; }
  std::int64_t axes() const { return source_.dim() - 1; }
  const Shape3& shape() const { return shape_; }  // of the result; Z = 1 for an image
  std::vector<std::int64_t> sizes() const;        // of the result, with channels
  at::ScalarType dtype() const;                   // of the result
  // `into`: undefined, or contiguous memory of just that shape and type.
  at::Tensor done(bool lazy, const at::Tensor& into = {}) const;

 private:
  at::Tensor source_;
  at::ScalarType stands_for_;
  std::vector<PendingStep> steps_;
  Shape3 shape_;
};

// Whether the tensor's work is done as fused jobs (kernels/augment/augment_job.h): on a CUDA
// device, or where a test says that the host plays one.
bool done_as_jobs(const at::Tensor& t);
void host_plays_device(bool does);

// All of them at once, each into its slice of `out` [N, C, ...]: one launch for each resampling
// that the longest has, however many there are.
void do_as_jobs(std::span<const Pending* const> all, std::span<const at::Tensor> outs, bool lazy);

}  // namespace sluice
