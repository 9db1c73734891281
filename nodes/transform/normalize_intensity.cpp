// normalize_intensity: MONAI's NormalizeIntensityd.
#include "engine/registry.h"
#include "engine/transform.h"
#include "kernels/intensity.h"

namespace sluice {
namespace {

using Values = std::optional<std::vector<double>>;

struct NormalizeIntensity final : Node {
  struct Params {
    std::vector<std::string> keys{"image"};
    Values subtrahend, divisor;
    bool nonzero = false, channel_wise = false, allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("normalize_intensity", "(x - mean) / std over the image or over each channel.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to normalise, each [C, ...]; they become float32.")
        .param(
            "subtrahend", &Params::subtrahend,
            "Subtracted instead of the mean, in the image's units: one number, or one a channel.")
        .param("divisor", &Params::divisor,
               "Divides instead of the standard deviation: one number, or one a channel.")
        .param("nonzero", &Params::nonzero,
               "Only voxels that are not 0 count, and only they are changed.")
        .param("channel_wise", &Params::channel_wise, "Each channel by its own statistics.")
        .param("allow_missing_keys", &Params::allow_missing_keys,
               "Leave out keys that a sample lacks instead of failing.")
        .takes("@keys", Form::image)
        .changes("@keys")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      field.tensor = kernels::map(field.tensor, functors(field.tensor, p.keys[i]));
    });
    f.emit(std::move(out));
  }

  std::vector<kernels::Normalize> functors(const at::Tensor& image, const std::string& key) const {
    check(image, key);
    std::vector<kernels::Moments> found(p.channel_wise ? image.size(0) : 1);
    if (!p.subtrahend || !p.divisor) found = kernels::moments(image, p.nonzero, p.channel_wise);
    const bool per_channel = p.channel_wise || (p.subtrahend && p.subtrahend->size() > 1) ||
                             (p.divisor && p.divisor->size() > 1);
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

  void check(const at::Tensor& image, const std::string& key) const {
    if (image.dim() < 1 || image.numel() == 0)
      throw DataError("field \"" + key + "\" has shape " + list_text(image.sizes()) +
                      ": nothing to normalise");
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
