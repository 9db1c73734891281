// resample_to_match: MONAI's ResampleToMatchd. Brings fields onto the grid of another one.
#include "engine/run/registry.h"
#include "kernels/image/resample.h"
#include "nodes/transform/sampling_params.h"

namespace sluice {
namespace {

struct ResampleToMatch final : Node {
  struct Params : SamplingParams {
    std::string key_dst = "image";
    std::vector<bool> align_corners{false};
    Params() {
      keys = {"label"};
      mode = {"bilinear"};
    }
  } p;

  static Spec spec() {
    Spec s("resample_to_match", "Resamples fields to the voxels of another field.");
    s.in("sample")
        .out("sample")
        .param("keys", static_cast<std::vector<std::string> Params::*>(&Params::keys),
               "Fields to resample, each [C, X, Y, Z].")
        .param("key_dst", &Params::key_dst, "The field whose affine and size they get.");
    return add_align_corners<Params>(add_sampling_params<Params>(s))
        .takes("@keys", Form::image, 3, 3)
        .takes("@key_dst", Form::image, 3, 3)
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field& goal = f.in().at(p.key_dst);
    require_spatial(goal.tensor, p.key_dst, 3);
    const Affine& target = goal.geometry().affine;
    const Shape3 size = shape_of(goal.tensor);
    for_each_volume(
        out, p.keys, p.allow_missing_keys,
        [&](Field& field, const at::Tensor& volume, std::int64_t, std::size_t i) {
          const Affine source = field.geometry().affine, m = solve(source, target);
          const Sampling how = p.sampling(i, flag(p.align_corners, i));
          constexpr double same = 1e-3;  // MONAI's AFFINE_TOL
          at::Tensor t = volume;
          if (shape_of(volume) != size ||
              !(near(source, target, same) || near(m, identity_affine, same)))
            t = resample(volume, how.align_corners ? on_aligned_grid(m, shape_of(volume), size) : m,
                         size, how);
          else if (how.mode == Interpolation::linear)
            t = volume.to(at::kFloat);
          // values: interpolation and padding as their enums' numbers.
          record(field, t, target, "resample_to_match", {double(how.mode), double(how.padding)});
        },
        3);
    f.emit(std::move(out));
  }
};

const Register<ResampleToMatch> registered;

}  // namespace
}  // namespace sluice
