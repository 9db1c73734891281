// add_point_guidance_signal: MONAI's AddPointGuidanceSignald of nuclick (Koohbanani et al. 2020).
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/run/registry.h"
#include "kernels/image/clicks.h"
#include "kernels/image/filters.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct AddPointGuidanceSignal final : Node {
  struct Params {
    std::string image = "image", label = "label", others = "others";
    double drop_rate = 0.5, sigma = 1, truncated = 2;
    std::int64_t jitter_range = 0;
    bool gaussian = false, add_exclusion_map = true, use_distance = false;
  } p;

  static Spec spec() {
    return Spec("add_point_guidance_signal",
                "Adds channels with a point on the object, and points on the others.")
        .in("sample")
        .out("sample")
        .param("image", &Params::image, "The image, [C, X, Y]; the channels come after its own.")
        .param("label", &Params::label,
               "The object, [1, X, Y] above 0: a pixel of it is drawn; none: no point.")
        .param("others", &Params::others,
               "The other objects' numbers (split_label), [1, X, Y]: a point at the centroid of "
               "each.")
        .param("drop_rate", &Params::drop_rate,
               "Probability that there are no points on others, and that one of them has none.")
        .range(0, 1)
        .param("jitter_range", &Params::jitter_range,
               "Points on others lie from so many pixels before the centroid to one less after it, "
               "on each axis.")
        .at_least(0)
        .param("gaussian", &Params::gaussian, "Smooths the points.")
        .param("sigma", &Params::sigma, "Standard deviation, pixels.")
        .above(0)
        .param("truncated", &Params::truncated, "Standard deviations that the smoothing reaches.")
        .above(0)
        .param("add_exclusion_map", &Params::add_exclusion_map, "A channel with points on others.")
        .param("use_distance", &Params::use_distance,
               "Draws the object's middle more often: by exp(distance from its border) - 1.")
        .random()
        .takes("@image", Form::image, 2, 2)
        .takes("@label", Form::image, 2, 2)
        .takes("@others", Form::image, 2, 2)
        .when("add_exclusion_map")
        .changes("@image");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field field = out.at(p.image);
    const at::Tensor& image = field.tensor;
    require_spatial(image, p.image, 2);
    Random random = f.random();
    std::vector<at::Tensor> all{image, included(fitting(out, p.label, image), image, random)};
    if (p.add_exclusion_map) all.push_back(excluded(fitting(out, p.others, image), image, random));
    field.tensor = at::cat(all);
    out.set(p.image, std::move(field));
    f.emit(std::move(out));
  }

 private:
  const at::Tensor& fitting(const Sample& sample, const std::string& key,
                            const at::Tensor& image) const {
    const at::Tensor& t = one_channel(sample, key);
    if (t.dim() != 3 || image.dim() != 3 || t.sizes().slice(1) != image.sizes().slice(1))
      throw DataError("field \"" + key + "\" " + list_text(t.sizes()) + " does not lie on \"" +
                      p.image + "\" " + list_text(image.sizes()));
    return t;
  }

  at::Tensor smoothed(const at::Tensor& points, const at::Tensor& like) const {
    if (!p.gaussian || points.sum().item<float>() == 0) return points.to(like.scalar_type());
    const at::Tensor kernel =
        gaussian_kernel(at::tensor(p.sigma, at::kDouble), p.truncated, "erf").to(at::kFloat);
    return separable_filtering(points.unsqueeze(0), {kernel})[0].to(like.scalar_type());
  }

  at::Tensor included(const at::Tensor& label, const at::Tensor& image, Random& random) const {
    at::Tensor points = at::zeros_like(label, at::kFloat);
    const auto sites = click_sites(to_volume(label)[0].gt(0).contiguous());
    if (!sites.empty()) {
      const double u = random.uniform();
      const auto any = static_cast<std::size_t>(u * static_cast<double>(sites.size()));
      const ClickSite& at =
          p.use_distance ? drawn_click(sites, u) : sites[std::min(any, sites.size() - 1)];
      points[0][at.voxel[0]][at.voxel[1]] = 1;
    }
    return smoothed(points, image);
  }

  at::Tensor excluded(const at::Tensor& others, const at::Tensor& image, Random& random) const {
    at::Tensor points = at::zeros_like(others, at::kFloat);
    if (random.chance(p.drop_rate)) return smoothed(points, image);
    struct Sum {
      double row = 0, column = 0, pixels = 0;
    };
    std::map<std::int64_t, Sum> objects;
    const at::Tensor numbers = others.to(at::kLong).contiguous();
    const auto* number = numbers.const_data_ptr<std::int64_t>();
    const std::int64_t rows = others.size(1), columns = others.size(2);
    for (std::int64_t i = 0; i < numbers.numel(); ++i) {
      if (number[i] <= 0) continue;
      Sum& s = objects[number[i]];
      s.row += static_cast<double>(i / columns);
      s.column += static_cast<double>(i % columns);
      s.pixels += 1;
    }
    const auto jittered = [&](double at, std::int64_t n) {
      auto x = static_cast<std::int64_t>(std::floor(at));
      if (p.jitter_range > 0)
        x += static_cast<std::int64_t>(
                 random.integer(static_cast<std::uint64_t>(2 * p.jitter_range))) -
             p.jitter_range;
      return std::clamp<std::int64_t>(x, 0, n - 1);
    };
    for (const auto& [of, s] : objects) {
      if (random.chance(p.drop_rate)) continue;
      const std::int64_t row = jittered(s.row / s.pixels, rows);
      points[0][row][jittered(s.column / s.pixels, columns)] = 1;
    }
    return smoothed(points, image);
  }
};

const Register<AddPointGuidanceSignal> registered;

}  // namespace
}  // namespace sluice
