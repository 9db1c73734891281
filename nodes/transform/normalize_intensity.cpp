// normalize_intensity: MONAI's NormalizeIntensityd.
#include "kernels/augment/intensity_ops.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/typed_intensity.h"

namespace sluice {
namespace {

using Values = std::optional<std::vector<double>>;

struct NormalizeIntensity final : TypedNode {
  struct Params : TypedParams {
    Values subtrahend, divisor;
    bool nonzero = false, channel_wise = false;
  } p;

  static Spec spec() {
    Spec s("normalize_intensity", "(x - mean) / std over the image or over each channel.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to normalise, each [C, ...].")
        .param(
            "subtrahend", &Params::subtrahend,
            "Subtracted instead of the mean, in the image's units: one number, or one a channel.")
        .param("divisor", &Params::divisor,
               "Divides instead of the standard deviation: one number, or one a channel.")
        .param("nonzero", &Params::nonzero,
               "Only voxels that are not 0 count, and only they are changed.")
        .param("channel_wise", &Params::channel_wise, "Each channel by its own statistics.");
    return add_typed_params(s).fuses(Fuses::values).any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      check(field.tensor, p.keys[i]);
      const auto change = [given = p](const at::Tensor& from, const at::Tensor& into) {
        return kernels::map(from, functors(given, from), into);
      };
      const kernels::Normalization n = normalization();
      change_typed(field, p, [&] {
        change_values(field, kernels::ops_of(n, field.tensor.size(0)), change,
                      n.lists() && n.measures() && !p.channel_wise
                          ? "normalize_intensity by a list and by the statistics of all channels"
                          : nullptr);
      });
    });
    finish(f, std::move(out));
  }

  static std::size_t count(const Values& v) { return v ? v->size() : 0; }
  static bool measures(const Params& p) { return !p.subtrahend || !p.divisor; }

  static std::vector<kernels::Normalize> functors(const Params& p, const at::Tensor& image) {
    std::vector<kernels::Moments> found(p.channel_wise ? image.size(0) : 1);
    if (measures(p)) found = kernels::moments(image, p.nonzero, p.channel_wise);
    const bool per_channel = p.channel_wise || count(p.subtrahend) > 1 || count(p.divisor) > 1;
    std::vector<kernels::Normalize> out(per_channel ? image.size(0) : 1);
    for (std::size_t c = 0; c < out.size(); ++c) {
      const auto& moments = per_key(found, c);
      const double std = p.divisor ? per_key(*p.divisor, c) : moments.std;
      out[c].mean = p.subtrahend ? per_key(*p.subtrahend, c) : moments.mean;
      out[c].std = std == 0 ? 1 : std;  // a flat image becomes 0, not NaN
      out[c].nonzero = p.nonzero;
    }
    return out;
  }

  kernels::Normalization normalization() const {
    return {p.subtrahend, p.divisor, p.nonzero, p.channel_wise};
  }

  void check(const at::Tensor& image, const std::string& key) const {
    if (image.dim() < 1 || image.numel() == 0)
      throw shape_error(key, image, ": nothing to normalise");
    for (const Values* values : {&p.subtrahend, &p.divisor})
      if (*values && (*values)->size() != 1 &&
          static_cast<std::int64_t>((*values)->size()) != image.size(0))
        throw DataError("field \"" + key + "\" has " + std::to_string(image.size(0)) +
                        " channels, but subtrahend or divisor has " +
                        std::to_string((*values)->size()) + " values");
  }
};

const Register<NormalizeIntensity> registered;

}  // namespace
}  // namespace sluice
