// What image_filter and rand_image_filter share: MONAI's ImageFilter, a filter by its name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/image/filters.h"
#include "kernels/image/gaussian.h"
#include "nodes/transform/filtering.h"

namespace sluice {

struct NamedFilter {
  std::string filter, mode = "zeros", padding_mode = "reflect", approx = "erf";
  std::int64_t filter_size = 3, axis = 2;
  std::optional<std::int64_t> order;
  std::optional<std::vector<double>> sigma;
  double truncated = 4;
  std::optional<std::vector<std::int64_t>> spatial_axes;
  bool normalize_kernels = true, normalize_gradients = false;

  void require_whole() const;                    // an Error where the filter lacks a parameter
  at::Tensor of(const at::Tensor& batch) const;  // [B, C, ...] float32

 private:
  at::Tensor slopes(const at::Tensor& batch) const;
};

// Changes a field [C, ...] into float32.
inline void filter_field(const NamedFilter& filter, Field& field, const std::string& key) {
  require_spatial(field.tensor, key, 1);
  if (field.tensor.is_complex()) throw DataError("field \"" + key + "\" is complex");
  field.tensor = filter.of(field.tensor.to(at::kFloat).unsqueeze(0)).squeeze(0);
}

template <class Params>
Spec& add_named_filter(Spec& s) {
  // The parameters', where this need not be their first base.
  const auto of = []<class T>(T NamedFilter::*member) { return static_cast<T Params::*>(member); };
  return s.param("filter", of(&NamedFilter::filter), "Which one.")
      .choices({"mean", "laplace", "elliptical", "sharpen", "median", "gauss", "sobel",
                "savitzky_golay"})
      .required()
      .param("filter_size", of(&NamedFilter::filter_size),
             "Voxels of its kernel or window on each axis, odd; not of gauss.")
      .at_least(1)
      .param("sigma", of(&NamedFilter::sigma), "Of gauss, in voxels, one or one an axis.")
      .above(0)
      .length(1, 3)
      .param("truncated", of(&NamedFilter::truncated), "Of gauss: cut there, in sigmas.")
      .above(0)
      .param("approx", of(&NamedFilter::approx), "Of gauss: how it becomes weights.")
      .choices(gaussian_names)
      .param("order", of(&NamedFilter::order), "Of savitzky_golay's polynomial, below filter_size.")
      .at_least(0)
      .param("axis", of(&NamedFilter::axis), "Of savitzky_golay; 2 is the first spatial axis.")
      .param("mode", of(&NamedFilter::mode), "Of savitzky_golay: what lies outside.")
      .choices(padding_names)
      .param("spatial_axes", of(&NamedFilter::spatial_axes),
             "Of sobel: a channel for each; null: for all spatial axes, from 0.")
      .param("normalize_kernels", of(&NamedFilter::normalize_kernels),
             "Of sobel: true derivatives.")
      .param("normalize_gradients", of(&NamedFilter::normalize_gradients),
             "Of sobel: each axis' slopes from 0 to 1.")
      .param("padding_mode", of(&NamedFilter::padding_mode), "Of sobel: what lies outside.")
      .choices(padding_names);
}

}  // namespace sluice
