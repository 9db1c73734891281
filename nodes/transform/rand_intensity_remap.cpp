// rand_intensity_remap: MONAI's RandIntensityRemapd.
#include <ATen/ops/stack.h>

#include "nodes/transform/remapping.h"

namespace sluice {
namespace {

struct RandIntensityRemap final : Node {
  struct Params : RandIntensityParams {
    std::int64_t kernel_size = 30;
    double slope = 0.7;
    bool channel_wise = true;
  } p;

  static Spec spec() {
    Spec s(
        "rand_intensity_remap",
        "Replaces intensities along a curve that is drawn from the image's own values, rising or "
        "falling.");
    s.in("sample").out("sample").param("keys", &Params::keys,
                                       "Fields to change, each [C, ...]; they become float32.");
    add_remap_params<Params>(s).param("channel_wise", &Params::channel_wise,
                                      "Each channel by a curve of its own.");
    return add_rand_intensity_params(s);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      const auto one = [&](const at::Tensor& x) {
        return remapped(x, p.kernel_size, random.chance(0.5) ? p.slope : -p.slope, random);
      };
      if (!p.channel_wise) {
        field.tensor = one(field.tensor);
        return;
      }
      std::vector<at::Tensor> channels;
      for (std::int64_t c = 0; c < field.tensor.size(0); ++c)
        channels.push_back(one(field.tensor[c]));
      field.tensor = at::stack(channels);
    });
    f.emit(std::move(out));
  }
};

const Register<RandIntensityRemap> registered;

}  // namespace
}  // namespace sluice
