// resample_to_match: MONAI's ResampleToMatchd. Brings fields onto the grid of another one.
#include "engine/registry.h"
#include "kernels/resample.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct ResampleToMatch final : Node {
  struct Params {
    std::vector<std::string> keys{"label"};
    std::string key_dst = "image";
    std::vector<std::string> mode{"bilinear"};
    std::vector<std::string> padding_mode{"border"};
    std::vector<bool> align_corners{false};
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("resample_to_match", "Resamples fields to the voxels of another field.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to resample, each [C, X, Y, Z].")
        .param("key_dst", &Params::key_dst, "The field whose affine and size they get.")
        .param("mode", &Params::mode, "Interpolation, \"nearest\" for labels; one, or one a key.")
        .choices({"bilinear", "nearest"})
        .per("keys")
        .param("padding_mode", &Params::padding_mode, "Outside the volume; one, or one a key.")
        .choices({"zeros", "border", "reflection"})
        .per("keys")
        .param("align_corners", &Params::align_corners,
               "Reflection turns at the voxels' centres, not at their faces; one, or one a key.")
        .per("keys")
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
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
          const Sampling how{parse_interpolation(per_key(p.mode, i)),
                             parse_padding(per_key(p.padding_mode, i)), flag(p.align_corners, i)};
          constexpr double same = 1e-3;  // MONAI's AFFINE_TOL
          at::Tensor t = volume;
          if (shape_of(volume) != size ||
              !(near(source, target, same) || near(m, identity_affine, same)))
            t = resample(volume, m, size, how);
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
