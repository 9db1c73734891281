// scale_intensity_range: MONAI's ScaleIntensityRanged.
#include "engine/registry.h"
#include "engine/transform.h"
#include "kernels/intensity.h"

namespace sluice {
namespace {

struct ScaleIntensityRange final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    double a_min = 0, a_max = 1;
    std::optional<double> b_min, b_max;
    bool clip = false, allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("scale_intensity_range", "Maps [a_min, a_max] linearly to [b_min, b_max].")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to scale, each [C, ...]; they become float32.")
        .param("a_min", &Params::a_min, "Lower input bound, in the image's units.")
        .required()
        .param("a_max", &Params::a_max, "Upper input bound, in the image's units.")
        .required()
        .param("b_min", &Params::b_min, "Lower output bound; null here or at b_max: [0, 1].")
        .param("b_max", &Params::b_max, "Upper output bound.")
        .param("clip", &Params::clip, "Hold the result between b_min and b_max.")
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out keys that a sample lacks instead of failing.")
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext&) override {
    functor_ = kernels::rescale(p.a_min, p.a_max, p.b_min, p.b_max, p.clip);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      field.tensor = kernels::map<kernels::Rescale>(field.tensor, {functor_});
    });
    f.emit(std::move(out));
  }

 private:
  kernels::Rescale functor_;
};

const Register<ScaleIntensityRange> registered;

}  // namespace
}  // namespace sluice
