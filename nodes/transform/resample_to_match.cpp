// resample_to_match: MONAI's ResampleToMatchd. Brings fields onto the grid of another one.
#include "engine/run/registry.h"
#include "nodes/transform/onto_grid.h"

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
               "Fields to resample, each [C, X, Y, Z] or [C, X, Y].")
        .param("key_dst", &Params::key_dst, "The field whose affine and size they get.");
    return add_align_corners<Params>(add_sampling_params<Params>(s))
        .takes("@keys", Form::image, 2, 3)
        .takes("@key_dst", Form::image, 2, 3)
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const Field& goal = image_field(f.in(), p.key_dst);
    const std::int64_t rank = goal.tensor.dim() - 1;
    const Shape3 size = shape_of(to_volume(goal.tensor));
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
                      if (axes != rank)
                        throw DataError("field \"" + p.keys[i] + "\" has " + std::to_string(axes) +
                                        " spatial axes, \"" + p.key_dst + "\" " +
                                        std::to_string(rank));
                      resample_onto(field, volume, axes, goal.geometry().affine, size,
                                    p.sampling(i, flag(p.align_corners, i)), "resample_to_match");
                    });
    f.emit(std::move(out));
  }
};

const Register<ResampleToMatch> registered;

}  // namespace
}  // namespace sluice
