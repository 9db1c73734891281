// intensity_remap: MONAI's IntensityRemap.
#include "nodes/transform/remapping.h"

namespace sluice {
namespace {

struct IntensityRemap final : Node {
  struct Params : IntensityParams {
    std::int64_t kernel_size = 30;
    double slope = 0.7;
  } p;

  static Spec spec() {
    Spec s("intensity_remap",
           "Replaces intensities along a curve that is drawn from the image's own values.");
    s.in("sample").out("sample").param("keys", &Params::keys,
                                       "Fields to change, each [C, ...]; they become float32.");
    return add_intensity_params(add_remap_params<Params>(s)).random();
  }

  void process(Firing& f) override {
    Random random = f.random();
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      field.tensor = remapped(field.tensor, p.kernel_size, p.slope, random);
    });
    f.emit(std::move(out));
  }
};

const Register<IntensityRemap> registered;

}  // namespace
}  // namespace sluice
