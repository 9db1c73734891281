// What the nodes of displacement fields share: batches or single samples of them, and what lies
// outside of an image.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/image/warp.h"

namespace sluice {

inline kernels::Outside outside_of(const std::string& padding_mode) {
  return padding_mode == "border" ? kernels::Outside::border : kernels::Outside::zeros;
}

template <class Params>
Spec& add_padding(Spec& s) {
  return s
      .param("padding_mode", &Params::padding_mode, "What lies outside: the nearest voxel, or 0.")
      .choices({"border", "zeros"})
      .lane(LaneKind::step)
      .differentiable()
      .any_device();
}

// A field [N, axes, ...], or [axes, ...], which is a batch of one.
struct Displaced {
  at::Tensor field;
  bool single;

  Displaced(const Sample& sample, const std::string& key) : field(sample.tensor(key)) {
    single = is_single_field(field);
    if (single) field = field.unsqueeze(0);
    if (field.dim() < 3 || field.dim() > 5 || field.size(1) != field.dim() - 2)
      throw DataError("\"" + key + "\" " + c10::str(sample.tensor(key).sizes()) +
                      " is no field of displacements [N, axes, ...] or [axes, ...]: one channel an "
                      "axis");
  }
  at::Tensor batched(const at::Tensor& image) const {
    if (image.dim() != field.dim() - (single ? 1 : 0))
      throw DataError("an image " + c10::str(image.sizes()) +
                      " has not the axes of displacements " + c10::str(field.sizes()));
    return single ? image.unsqueeze(0) : image;
  }
  at::Tensor as_given(const at::Tensor& batch) const { return single ? batch.squeeze(0) : batch; }
};

}  // namespace sluice
