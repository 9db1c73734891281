// rand_grid_distortion: MONAI's RandGridDistortiond. One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/distortion.h"
#include "kernels/image/resample.h"
#include "kernels/image/separable.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {
namespace {

struct RandGridDistortion final : Node {
  struct Params : SamplingParams {
    std::vector<std::int64_t> num_cells{5};
    double prob = 0.1;
    std::vector<double> distort_limit{-0.03, 0.03};
  } p;

  static Spec spec() {
    Spec s("rand_grid_distortion",
           "Stretches and squeezes the cells of a grid by randomly drawn factors.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to distort, each [C, X, Y, Z] or [C, X, Y].")
        .param("num_cells", &Params::num_cells, "Cells: one number, or one an axis.")
        .range(1, 1024)
        .length(1, 3)
        .param("prob", &Params::prob, "Probability of a distortion.")
        .range(0, 1)
        .param("distort_limit", &Params::distort_limit,
               "Bounds of what is added to a factor of 1; one number v stands for -v..v.")
        .length(1, 2)
        .random();
    return add_sampling_params<Params>(s).takes("@keys", Form::image, 2, 3);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    std::array<std::vector<double>, 3> steps;
    for (std::size_t d = 0; d < 3; ++d)
      for (std::int64_t i = 0; i <= per_key(p.num_cells, d); ++i)
        steps[d].push_back(1 + draw(random, p.distort_limit));
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
                      const at::Tensor t = distorted(volume, axes, steps, i);
                      // No affine describes it. values: the factors of all axes.
                      std::vector<double> values;
                      for (std::int64_t d = 0; d < axes; ++d)
                        values.insert(values.end(), steps[d].begin(), steps[d].end());
                      record(field, from_volume(t, axes), field.geometry().affine,
                             "rand_grid_distortion", std::move(values));
                    });
    f.emit(std::move(out));
  }

  at::Tensor distorted(const at::Tensor& volume, std::int64_t axes,
                       const std::array<std::vector<double>, 3>& steps, std::size_t key) const {
    const Shape3 n = shape_of(volume);
    const Sampling how = p.sampling(key);
    const bool nearest = how.mode == Interpolation::nearest;
    Bands bands;
    Picks picks;
    for (int d = 0; d < 3; ++d) {
      bands[d] = keep_axis(n[d]);
      picks[d] = pick_axis(n[d]);
      if (d >= axes) continue;
      const std::vector<double> at = distorted_axis(n[d], steps[d]);
      if (nearest)
        picks[d] = nearest_axis(n[d], at, how.padding);
      else
        bands[d] = sample_axis(n[d], at, how.padding);
    }
    return nearest ? pick(volume, picks) : map_axes(volume, bands);
  }
};

const Register<RandGridDistortion> registered;

}  // namespace
}  // namespace sluice
