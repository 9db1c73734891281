// grid_distortion: MONAI's GridDistortiond.
#include "engine/run/registry.h"
#include "nodes/transform/distorting.h"

namespace sluice {
namespace {

struct GridDistortion final : Node {
  struct Params : SamplingParams {
    std::vector<std::int64_t> num_cells;
    std::vector<std::vector<double>> distort_steps;
  } p;

  static Spec spec() {
    Spec s("grid_distortion", "Stretches and squeezes the cells of a grid by given factors.");
    add_image_keys<Params>(s, "distort")
        .param("num_cells", &Params::num_cells, "Cells: one number, or one an axis.")
        .required()
        .range(1, 1024)
        .length(1, 3)
        .param("distort_steps", &Params::distort_steps,
               "Of each axis a list of factors, one a cell and one more.")
        .required()
        .length(2, 3);
    return add_sampling_params<Params>(s)
        .takes("@keys", Form::image, 2, 3)
        .per_axis("@keys", "num_cells")
        .per_axis("@keys", "distort_steps");
  }

  void open(const OpenContext&) override {
    for (std::size_t d = 0; d < p.distort_steps.size(); ++d) {
      const auto wanted = per_key(p.num_cells, d) + 1;
      if (std::ssize(p.distort_steps[d]) != wanted)
        throw Error(Exit::usage, "distort_steps has " + std::to_string(p.distort_steps[d].size()) +
                                     " factors for axis " + std::to_string(d) +
                                     "; its cells need " + std::to_string(wanted));
    }
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
                      if (std::ssize(p.distort_steps) != axes)
                        throw DataError("field \"" + p.keys[i] + "\" has " + std::to_string(axes) +
                                        " spatial axes, distort_steps " +
                                        std::to_string(p.distort_steps.size()) + " lists");
                      require_one_an_axis(p.num_cells.size(), "num_cells", axes);
                      record_distorted(field, volume, axes, p.distort_steps, p.sampling(i),
                                       "grid_distortion");
                    });
    f.emit(std::move(out));
  }
};

const Register<GridDistortion> registered;

}  // namespace
}  // namespace sluice
