// spacing: MONAI's Spacingd. Resamples to given voxel sizes.
#include "engine/run/registry.h"
#include "kernels/image/axes.h"
#include "kernels/image/spaced_grid.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {
namespace {

struct Spacing final : FusedNode {
  struct Params : SamplingParams {
    std::vector<double> pixdim;
    bool diagonal = false, align_corners = false, scale_extent = false, recompute_affine = false;
    std::vector<std::optional<double>> min_pixdim, max_pixdim;
  } p;

  static Spec spec() {
    Spec s("spacing", "Resamples volumes to voxels of the given size.");
    add_image_keys<Params>(s, "resample")
        .param("pixdim", &Params::pixdim,
               "Voxel sizes in mm, one an axis; the last counts for missing ones, 0 keeps an axis.")
        .required()
        .length(1)
        .param("diagonal", &Params::diagonal, "Give the result a diagonal affine: undo rotations.")
        .param("align_corners", &Params::align_corners,
               "Reflection turns at the voxels' centres, not at their faces.")
        .param("scale_extent", &Params::scale_extent,
               "Cover the voxels' outer faces, not only their centres.")
        .param("recompute_affine", &Params::recompute_affine,
               "The result's affine is that of the change alone, from the numbers of voxels: the "
               "image's own is forgotten.")
        .param("min_pixdim", &Params::min_pixdim,
               "An axis between min_pixdim and max_pixdim (mm) keeps its voxel size; null: no such "
               "bound.")
        .param("max_pixdim", &Params::max_pixdim, "See min_pixdim.");
    return add_sampling_params<Params>(s)
        .fuses(Fuses::resamples)
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      resample_field(field, i);
    });
    finish(f, std::move(out));
  }

  void resample_field(Field& field, std::size_t key) const {
    const std::int64_t axes = field.tensor.dim() - 1;
    const Affine source = of_axes(field.geometry().affine, axes);
    const Shape3 shape = shape_of(field);
    const SpacedGrid target = spaced_grid(
        {p.pixdim, p.diagonal, p.scale_extent, p.min_pixdim, p.max_pixdim}, source, shape, axes);
    const Sampling how = p.sampling(key, p.align_corners);
    if (target.same) {  // as MONAI: only the type changes, not the affine
      if (how.mode == Interpolation::linear) become_float(field);
      return;
    }
    // values: the voxel sizes reached.
    const Vec3 reached = voxel_spacing(target.affine);
    const Affine grid =
        p.align_corners ? on_aligned_grid(target.to_source, shape, target.shape) : target.to_source;
    const Affine affine = p.recompute_affine ? resize_affine(shape, target.shape, p.align_corners)
                          : axes == 3        ? target.affine
                                             : multiply(field.geometry().affine, target.to_source);
    record(field, resampled(grid, target.shape, how), affine, "spacing",
           with_sampling({reached[0], reached[1], reached[2]}, how));
  }
};

const Register<Spacing> registered;

}  // namespace
}  // namespace sluice
