// spatial_resample: MONAI's SpatialResampled.
#include "engine/run/registry.h"
#include "nodes/transform/onto_grid.h"

namespace sluice {
namespace {

struct SpatialResample final : Node {
  struct Params : SamplingParams {
    std::optional<std::vector<std::vector<double>>> dst_affine;
    std::vector<std::string> dst_keys{"dst_affine"};
    std::vector<bool> align_corners{false};
  } p;

  static Spec spec() {
    Spec s("spatial_resample", "Resamples fields to the grid of a given affine.");
    add_image_keys<Params>(s, "resample")
        .param("dst_affine", &Params::dst_affine,
               "The new grid's affine, row by row; the size is what holds the image. null: of "
               "dst_keys.")
        .param("dst_keys", &Params::dst_keys,
               "Fields with such an affine, [4, 4] or [3, 3]; one, or one a key.")
        .per("keys");
    return add_align_corners<Params>(add_sampling_params<Params>(s))
        .takes("@keys", Form::image, 2, 3)
        .takes("@dst_keys", Form::any, 0)
        .unless("dst_affine", {})
        .resizes("@keys");
  }

  void open(const OpenContext&) override {
    if (p.dst_affine && p.dst_affine->size() != 3 && p.dst_affine->size() != 4)
      throw Error(Exit::usage, "dst_affine must have 3 or 4 rows");
    for (const auto& row : p.dst_affine.value_or(std::vector<std::vector<double>>{}))
      if (row.size() != p.dst_affine->size())
        throw Error(Exit::usage, "dst_affine must have as many columns as rows");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
                      const Affine target = target_of(f.in(), i);
                      const Shape3 size =
                          compute_shape_offset(shape_of(volume),
                                               of_axes(field.geometry().affine, axes),
                                               of_axes(target, axes))
                              .shape;
                      resample_onto(field, volume, axes, target, size,
                                    p.sampling(i, flag(p.align_corners, i)), "spatial_resample");
                    });
    f.emit(std::move(out));
  }

 private:
  Affine target_of(const Sample& sample, std::size_t key) const {
    std::vector<std::vector<double>> rows;
    if (p.dst_affine) {
      rows = *p.dst_affine;
    } else {
      const std::string& name = per_key(p.dst_keys, key);
      const at::Tensor m = sample.tensor(name).to(at::kDouble).contiguous();
      if (m.dim() != 2 || m.size(0) != m.size(1) || (m.size(0) != 3 && m.size(0) != 4))
        throw shape_error(name, m, "; an affine is [4, 4] or [3, 3]");
      for (std::int64_t r = 0; r < m.size(0); ++r) {
        const double* v = m.const_data_ptr<double>() + r * m.size(1);
        rows.emplace_back(v, v + m.size(1));
      }
    }
    const std::size_t n = rows.size() - 1;  // axes
    Affine out = identity_affine;
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n; ++c) out[4 * r + c] = rows[r][c];
      out[4 * r + 3] = rows[r][n];
    }
    return out;
  }
};

const Register<SpatialResample> registered;

}  // namespace
}  // namespace sluice
