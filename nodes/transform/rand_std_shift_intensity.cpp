// rand_std_shift_intensity: MONAI's RandStdShiftIntensityd. One draw for all keys.
#include "engine/run/registry.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandStdShiftIntensity final : FusedNode {
  struct Params : RandIntensityParams {
    std::vector<double> factors;
    bool nonzero = false, channel_wise = false;
  } p;

  static Spec spec() {
    Spec s("rand_std_shift_intensity",
           "x + f std, f uniform and std the image's own, with one draw for all keys.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("factors", &Params::factors, "Bounds of f; one number v stands for [-v, v].")
        .required()
        .length(1, 2)
        .param("nonzero", &Params::nonzero,
               "Only voxels that are not 0 count, and only they are changed.")
        .param("channel_wise", &Params::channel_wise, "Each channel by its own deviation.");
    return add_rand_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    const double factor = draw(random, p.factors);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      const auto ops = ops_of(kernels::AugmentKind::std_shift,
                              {static_cast<float>(factor), p.nonzero * 1.0f}, p.channel_wise);
      const bool nonzero = p.nonzero, channel_wise = p.channel_wise;
      change_values(field, ops, [=](const at::Tensor& from, const at::Tensor& into) {
        std::vector<kernels::Shift> functors;
        for (const auto& m : kernels::moments(from, nonzero, channel_wise))
          functors.push_back({static_cast<float>(factor * m.std), nonzero});
        return kernels::map(from, functors, into);
      });
    });
    finish(f, std::move(out));
  }
};

const Register<RandStdShiftIntensity> registered;

}  // namespace
}  // namespace sluice
