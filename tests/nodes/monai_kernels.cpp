#include "tests/nodes/monai_kernels.h"

#include <functional>
#include <map>
#include <stdexcept>

#include "kernels/augment/color.h"
#include "kernels/image/bias_field.h"
#include "kernels/image/distortion.h"
#include "kernels/image/histogram.h"
#include "kernels/image/holes.h"
#include "kernels/image/intensity_remap.h"
#include "kernels/image/resample.h"
#include "kernels/image/separable.h"
#include "kernels/image/smooth_field.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/mixing.h"

namespace sluice::monai {
namespace {

using Kernel = std::function<at::Tensor(const at::Tensor&, const Json&)>;

at::Tensor grid_distortion(const at::Tensor& image, const Json& params) {
  const at::Tensor volume = to_volume(image);
  const Shape3 n = shape_of(volume);
  Bands bands;
  for (int d = 0; d < 3; ++d) {
    bands[d] = keep_axis(n[d]);
    if (d < image.dim() - 1)
      bands[d] = sample_axis(n[d], distorted_axis(n[d], params["steps"][d]),
                             parse_padding(params["padding_mode"]));
  }
  return from_volume(map_axes(volume, bands), image.dim() - 1);
}

at::Tensor bias_field(const at::Tensor& image, const Json& params) {
  const int rank = static_cast<int>(image.dim()) - 1, degree = params["degree"];
  return kernels::apply_bias_field(image, degree,
                                   kernels::bias_table(rank, degree, params["coefficients"]));
}

at::Tensor histogram_shift(const at::Tensor& image, const Json& params) {
  return kernels::shift_histogram(image, params["to"]);
}

at::Tensor coarse_dropout(const at::Tensor& image, const Json& params) {
  std::vector<Box> boxes;
  for (const Json& box : params["holes"])
    boxes.push_back({box[0].get<Shape3>(), box[1].get<Shape3>()});
  const float value = params["value"];
  return fill_holes_in(image, boxes, params["inside"], {value, value, {}});
}

at::Tensor color_jitter(const at::Tensor& image, const Json& params) {
  at::Tensor x = image;
  for (const Json& step : params["order"]) {
    const auto i = step.get<std::size_t>();
    x = kernels::jitter(x, static_cast<kernels::Jitter>(i), params["by"][i]);
  }
  return x;
}

// The coarse field of the case, stretched to the image.
at::Tensor field_of(const at::Tensor& image, const Json& params) {
  std::vector<std::int64_t> shape = params["shape"];
  if (shape.size() == 3) shape.push_back(1);
  const auto numbers = params["coarse"].get<std::vector<double>>();
  const at::Tensor coarse = at::tensor(numbers, at::kDouble).to(at::kFloat).view(shape);
  return smooth_field(coarse, shape_of(to_volume(image)), parse_resizing(params["mode"]),
                      params.value("align_corners", false));
}
at::Tensor smooth_contrast(const at::Tensor& image, const Json& params) {
  return from_volume(field_contrast(to_volume(image), field_of(image, params)), image.dim() - 1);
}
at::Tensor smooth_intensity(const at::Tensor& image, const Json& params) {
  return from_volume(to_volume(image) * field_of(image, params), image.dim() - 1);
}
at::Tensor smooth_deform(const at::Tensor& image, const Json& params) {
  const std::int64_t axes = image.dim() - 1;
  return from_volume(
      field_deform(to_volume(image), axes, field_of(image, params), params["grid_mode"],
                   parse_padding(params["grid_padding_mode"]), params["grid_align_corners"]),
      axes);
}

at::Tensor intensity_remap(const at::Tensor& image, const Json& params) {
  return kernels::remapped(image, kernels::distinct_values(image), params["noise"],
                           params["slope"]);
}

Mix mix_of(const Json& params) {
  Mix mix;
  mix.weight = params["weight"].get<std::vector<double>>();
  mix.partner = params["partner"].get<std::vector<std::int64_t>>();
  mix.corner = params["corner"].get<std::vector<std::int64_t>>();
  return mix;
}
at::Tensor mix_up(const at::Tensor& batch, const Json& params) {
  return mix_of(params).mixed(batch);
}
at::Tensor cut_mix(const at::Tensor& batch, const Json& params) {
  const Mix mix = mix_of(params);
  return mix.cut(batch, mix.others(batch));
}
at::Tensor cut_out(const at::Tensor& batch, const Json& params) {
  return mix_of(params).cut(batch, at::zeros_like(batch));
}

const std::map<std::string, Kernel> known{{"grid_distortion", grid_distortion},
                                          {"bias_field", bias_field},
                                          {"histogram_shift", histogram_shift},
                                          {"coarse_dropout", coarse_dropout},
                                          {"color_jitter", color_jitter},
                                          {"smooth_contrast", smooth_contrast},
                                          {"smooth_intensity", smooth_intensity},
                                          {"smooth_deform", smooth_deform},
                                          {"intensity_remap", intensity_remap},
                                          {"mix_up", mix_up},
                                          {"cut_mix", cut_mix},
                                          {"cut_out", cut_out}};

}  // namespace

std::vector<Sample> run_kernel(const std::string& name, const Json& params, const Sample& in) {
  const auto found = known.find(name);
  if (found == known.end()) throw std::logic_error("no kernel " + name);
  Sample out = in;
  Field image = in.at("image");
  image.tensor = found->second(image.tensor, params);
  out.set("image", std::move(image));
  return {out};
}

}  // namespace sluice::monai
