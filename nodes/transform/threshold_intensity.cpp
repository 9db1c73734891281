// threshold_intensity: MONAI's ThresholdIntensityd.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct ThresholdIntensity final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    double threshold = 0;
    bool above = true;
    double cval = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("threshold_intensity", "Keeps what is above (or below) a threshold.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to filter, each [C, ...]; their type stays.")
        .param("threshold", &Params::threshold, "In the image's units.")
        .required()
        .param("above", &Params::above, "Keep what is above, otherwise what is below.")
        .param("cval", &Params::cval, "What the other voxels become.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      const at::Tensor& x = field.tensor;
      const at::Tensor kept = p.above ? at::gt(x, p.threshold) : at::lt(x, p.threshold);
      field.tensor = at::where(kept, x, at::scalar_tensor(p.cval, x.options()));
    });
    f.emit(std::move(out));
  }
};

const Register<ThresholdIntensity> registered;

}  // namespace
}  // namespace sluice
