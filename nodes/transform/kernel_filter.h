// Filters whose kernel is known by its size.
#pragma once

#include "kernels/image/filters.h"
#include "nodes/transform/filtering.h"

namespace sluice {

struct KernelFilterParams : FilterParams {
  std::int64_t size = 3;
};

inline Spec kernel_filter_spec(std::string name, std::string does) {
  Spec s(std::move(name), std::move(does) + " Zeros outside. Gradients: image.");
  add_filter_params<KernelFilterParams>(s)
      .param("size", &KernelFilterParams::size, "Of the kernel on each axis, odd.")
      .at_least(1);
  return on_tape(s);
}

template <at::Tensor (*kernel)(std::int64_t axes, std::int64_t size)>
struct KernelFilter : FilterNode<KernelFilterParams> {
  void open(const OpenContext&) override { require_odd("size", this->p.size); }

 protected:
  at::Tensor of(const Sample&, FilterBatch& image) const override {
    return apply_filter(image.of, kernel(image.axes(), this->p.size));
  }
};

}  // namespace sluice
