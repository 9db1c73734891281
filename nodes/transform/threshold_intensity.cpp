// threshold_intensity: MONAI's ThresholdIntensityd.
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>

#include <cmath>
#include <limits>

#include "engine/run/registry.h"
#include "engine/state/dtype.h"
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
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& x = field.tensor;
      if (!holds(x.scalar_type(), p.cval))
        throw DataError("field \"" + p.keys[i] + "\" is " + type_name(x) +
                        ", which cannot hold cval " + c10::str(p.cval));
      const at::Tensor kept = p.above ? at::gt(x, p.threshold) : at::lt(x, p.threshold);
      field.tensor = at::where(kept, x, at::scalar_tensor(p.cval, x.options()));
    });
    f.emit(std::move(out));
  }

 private:
  // Fractions are cut off.
  static bool holds(at::ScalarType type, double value) {
    if (!at::isIntegralType(type, false)) return true;
    const double whole = std::trunc(value);
    return AT_DISPATCH_INTEGRAL_TYPES(type, "holds", [&] {
      using Limits = std::numeric_limits<scalar_t>;
      return whole >= static_cast<double>(Limits::min()) &&
             whole <= static_cast<double>(Limits::max());
    });
  }
  static std::string type_name(const at::Tensor& x) {
    const Dtype* type = find_dtype(x.scalar_type());
    return type ? std::string(type->name) : c10::toString(x.scalar_type());
  }
};

const Register<ThresholdIntensity> registered;

}  // namespace
}  // namespace sluice
