// rand_grid_distortion: MONAI's RandGridDistortiond. One draw for all keys.
#include "engine/run/registry.h"
#include "nodes/transform/distorting.h"

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
    add_image_keys<Params>(s, "distort")
        .param("num_cells", &Params::num_cells, "Cells: one number, or one an axis.")
        .range(1, 1024)
        .length(1, 3)
        .param("prob", &Params::prob, "Probability of a distortion.")
        .range(0, 1)
        .param("distort_limit", &Params::distort_limit,
               "Bounds of what is added to a factor of 1; one number v stands for -v..v.")
        .length(1, 2)
        .random();
    return add_sampling_params<Params>(s)
        .takes("@keys", Form::image, 2, 3)
        .per_axis("@keys", "num_cells");
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    std::vector<std::vector<double>> steps(3);
    for (std::size_t d = 0; d < 3; ++d)
      for (std::int64_t i = 0; i <= per_key(p.num_cells, d); ++i)
        steps[d].push_back(1 + draw(random, p.distort_limit));
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
                      require_one_an_axis(p.num_cells.size(), "num_cells", axes);
                      record_distorted(field, volume, axes, steps, p.sampling(i),
                                       "rand_grid_distortion");
                    });
    f.emit(std::move(out));
  }
};

const Register<RandGridDistortion> registered;

}  // namespace
}  // namespace sluice
