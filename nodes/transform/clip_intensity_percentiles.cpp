// clip_intensity_percentiles: MONAI's ClipIntensityPercentilesd. Bounds that are NaN make NaN.
#include <cmath>
#include <limits>

#include "kernels/image/histogram.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/typed_intensity.h"

namespace sluice {
namespace {

struct ClipIntensityPercentiles final : Node {
  struct Params : TypedParams {
    std::optional<double> lower, upper, sharpness_factor;
    bool channel_wise = false;
  } p;

  static Spec spec() {
    Spec s("clip_intensity_percentiles", "Holds an image between two of its percentiles.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to clip, each [C, ...].")
        .param("lower", &Params::lower, "Lower percentile; null: no lower bound.")
        .range(0, 100)
        .at_most("upper")
        .param("upper", &Params::upper, "Upper percentile; null: no upper bound.")
        .range(0, 100)
        .param("sharpness_factor", &Params::sharpness_factor,
               "Clip softly: larger numbers bend in less of the range.")
        .above(0)
        .param("channel_wise", &Params::channel_wise, "Each channel by its own percentiles.");
    return add_typed_params(s);
  }

  void open(const OpenContext&) override {
    if (!p.lower && !p.upper) throw Error(Exit::usage, "lower and upper are both null");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      const auto found = kernels::percentiles(
          field.tensor, {p.lower.value_or(0), p.upper.value_or(100)}, p.channel_wise);
      const at::ScalarType type = result_type(p, field.tensor.scalar_type());
      at::Tensor clipped = p.sharpness_factor ? kernels::map(field.tensor, soft(found))
                                              : kernels::map(field.tensor, hard(found));
      for (std::size_t c = 0; c < found.size(); ++c)
        if (std::isnan(found[c][0]))
          (p.channel_wise ? clipped[static_cast<std::int64_t>(c)] : clipped)
              .fill_(std::numeric_limits<double>::quiet_NaN());
      field.tensor = clipped.to(type);
    });
    f.emit(std::move(out));
  }

 private:
  std::vector<kernels::SoftClip> soft(const std::vector<std::vector<double>>& found) const {
    std::vector<kernels::SoftClip> functors(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (p.lower) functors[i].low = static_cast<float>(found[i][0]);
      if (p.upper) functors[i].high = static_cast<float>(found[i][1]);
      functors[i].sharpness = static_cast<float>(*p.sharpness_factor);
    }
    return functors;
  }
  std::vector<kernels::Rescale> hard(const std::vector<std::vector<double>>& found) const {
    std::vector<kernels::Rescale> functors(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      functors[i].least = static_cast<float>(found[i][0]);
      functors[i].most = static_cast<float>(found[i][1]);
    }
    return functors;
  }
};

const Register<ClipIntensityPercentiles> registered;

}  // namespace
}  // namespace sluice
