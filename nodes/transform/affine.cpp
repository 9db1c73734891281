// affine: MONAI's Affined. One given affine about the centre for all keys.
#include "engine/run/registry.h"
#include "kernels/image/affine_params.h"
#include "kernels/image/axes.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {
namespace {

struct AffineNode final : FusedNode {
  struct Params : SamplingParams {
    std::vector<double> rotate_params, shear_params, translate_params, scale_params;
    std::optional<std::vector<std::vector<double>>> affine;
    std::optional<std::vector<std::int64_t>> spatial_size;
    bool align_corners = false;
    Params() { padding_mode = {"reflection"}; }
  } p;

  static Spec spec() {
    Spec s("affine", "Rotates, shears, shifts and scales all keys by one given affine.");
    add_image_keys<Params>(s, "resample")
        .param("rotate_params", &Params::rotate_params,
               "Radians about x, y and z, in this order; one for images of two axes.")
        .length(0, 3)
        .param("shear_params", &Params::shear_params,
               "Shear factors, six of volumes, two of images of two axes.")
        .length(0, 6)
        .param("translate_params", &Params::translate_params, "Voxels an axis.")
        .length(0, 3)
        .param("scale_params", &Params::scale_params,
               "Factors, an axis each; above 1 the picture shrinks.")
        .length(0, 3)
        .param("affine", &Params::affine,
               "Instead of all these the matrix, row by row, of voxels counted from the centre.")
        .param("spatial_size", &Params::spatial_size,
               "Voxels of the result: one number, or one an axis; 0 or less, or null: the image's.")
        .param("align_corners", &Params::align_corners,
               "Voxels are counted as torch does with align_corners: in steps of n / (n - 1).");
    return add_sampling_params<Params>(s)
        .fuses(Fuses::resamples)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys", "spatial_size")
        .when("spatial_size");
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (!p.affine) return;
    if (!(p.rotate_params.empty() && p.shear_params.empty() && p.translate_params.empty() &&
          p.scale_params.empty()))
      throw Error(Exit::usage, "affine is given instead of rotate_params and the others");
    const std::size_t n = p.affine->size();
    bool square = n == 3 || n == 4;
    for (const auto& row : *p.affine) square &= row.size() == n;
    if (!square) throw Error(Exit::usage, "affine must be 3 rows of 3 numbers, or 4 of 4");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_pending(
        out, p.keys, p.allow_missing_keys,
        [&](Field& field, const Shape3& shape, std::int64_t axes, std::size_t i) {
          const Shape3 size = p.spatial_size ? fall_back(*p.spatial_size, shape, axes) : shape;
          const Sampling how = p.sampling(i, p.align_corners);
          const Affine m = about_centres(stepped(centred(axes), shape, size, axes), shape, size);
          // values: output -> source voxels.
          record(field, resampled(m, size, how), "affine",
                 with_sampling({m.begin(), m.end()}, how));
        });
    finish(f, std::move(out));
  }

 private:
  Affine centred(std::int64_t axes) const {
    if (!p.affine)
      return centred_affine({p.rotate_params, p.shear_params, p.translate_params, p.scale_params},
                            axes);
    // A matrix of another rank is cut, or widened, as MONAI does.
    const auto given = static_cast<std::int64_t>(p.affine->size()) - 1;
    Affine m = identity_affine;
    for (std::size_t r = 0; r < p.affine->size() - 1; ++r) {
      const auto& row = (*p.affine)[r];
      for (std::size_t c = 0; c + 1 < row.size(); ++c) m[4 * r + c] = row[c];
      m[4 * r + 3] = row.back();
    }
    return of_axes(m, std::min(axes, given));
  }

  Affine stepped(const Affine& m, const Shape3& from, const Shape3& to, std::int64_t axes) const {
    if (!p.align_corners) return m;
    Vec3 in{1, 1, 1}, out{1, 1, 1};
    for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d) {
      const double a = std::max(static_cast<double>(from[d]), 2.0);
      const double b = std::max(static_cast<double>(to[d]), 2.0);
      in[d] = (a - 1) / a;
      out[d] = b / (b - 1);
    }
    return multiply(multiply(scaling(in), m), scaling(out));
  }
};

const Register<AffineNode> registered;

}  // namespace
}  // namespace sluice
