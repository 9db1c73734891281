// rand_spacing: resamples to voxel sizes drawn from a range, as scanners differ. Not in MONAI.
#include "engine/run/registry.h"
#include "kernels/image/resample.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {
namespace {

struct RandSpacing final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<double> min_pixdim, max_pixdim;
    double prob = 1;
    std::vector<std::string> mode{"bilinear", "nearest"};
    std::vector<std::string> padding_mode{"border"};
  } p;

  static Spec spec() {
    return Spec("rand_spacing", "Resamples all keys to voxels of one randomly drawn size.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to resample, each [C, X, Y, Z].")
        .param("min_pixdim", &Params::min_pixdim, "Smallest voxel sizes in mm, one or one an axis.")
        .required()
        .above(0)
        .length(1)
        .at_most("max_pixdim")
        .param("max_pixdim", &Params::max_pixdim, "Largest voxel sizes in mm, one or one an axis.")
        .required()
        .above(0)
        .length(1)
        .param("prob", &Params::prob, "Probability of a resampling.")
        .range(0, 1)
        .param("mode", &Params::mode, "Interpolation; one, or one a key.")
        .choices({"bilinear", "nearest"})
        .per("keys")
        .param("padding_mode", &Params::padding_mode, "Outside the volume; one, or one a key.")
        .choices({"zeros", "border", "reflection"})
        .per("keys")
        .random()
        .takes("@keys", Form::image, 3, 3)
        .resizes("@keys");
  }

  void open(const OpenContext&) override {
    require_one_or("min_pixdim", p.min_pixdim.size(), 3);
    require_one_or("max_pixdim", p.max_pixdim.size(), 3);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Vec3 pixdim;
    for (std::size_t d = 0; d < 3; ++d)
      pixdim[d] = random.uniform(per_key(p.min_pixdim, d), per_key(p.max_pixdim, d));
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i], 3);
      const Affine& source = field.geometry().affine;
      const Shape3 shape = shape_of(field.tensor);
      Affine target = zoom_affine(source, pixdim, false);
      const Placement place = compute_shape_offset(shape, source, target);
      for (std::size_t d = 0; d < 3; ++d) target[4 * d + 3] = place.offset[d];
      const Sampling how{parse_interpolation(per_key(p.mode, i)),
                         parse_padding(per_key(p.padding_mode, i))};
      record(field, resample(field.tensor, multiply(inverse(source), target), place.shape, how),
             target, "rand_spacing", with_sampling({pixdim[0], pixdim[1], pixdim[2]}, how));
    });
    f.emit(std::move(out));
  }
};

const Register<RandSpacing> registered;

}  // namespace
}  // namespace sluice
