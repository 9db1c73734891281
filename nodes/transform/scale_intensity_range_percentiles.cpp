// scale_intensity_range_percentiles: MONAI's ScaleIntensityRangePercentilesd.
#include "kernels/image/histogram.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/typed_intensity.h"

namespace sluice {
namespace {

struct ScaleIntensityRangePercentiles final : Node {
  struct Params : TypedParams {
    double lower = 0, upper = 100;
    std::optional<double> b_min, b_max;
    bool clip = false, relative = false, channel_wise = false;
  } p;

  static Spec spec() {
    Spec s("scale_intensity_range_percentiles",
           "Maps two percentiles of the image linearly to [b_min, b_max].");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to scale, each [C, ...].")
        .param("lower", &Params::lower, "Lower percentile.")
        .required()
        .range(0, 100)
        .param("upper", &Params::upper, "Upper percentile.")
        .required()
        .range(0, 100)
        .param("b_min", &Params::b_min, "Where the lower one goes; null here or at b_max: [0, 1].")
        .required()
        .param("b_max", &Params::b_max, "Where the upper one goes.")
        .required()
        .param("clip", &Params::clip, "Hold the result between b_min and b_max.")
        .param("relative", &Params::relative,
               "They go to those shares of [b_min, b_max] instead of its ends.")
        .param("channel_wise", &Params::channel_wise, "Each channel by its own percentiles.");
    return add_typed_params(s);
  }

  void open(const OpenContext&) override {
    if (p.relative && !(p.b_min && p.b_max))
      throw Error(Exit::usage, "relative needs b_min and b_max");
    low_ = p.b_min, high_ = p.b_max;
    if (!p.relative) return;
    const double span = *p.b_max - *p.b_min;
    low_ = span * (p.lower / 100) + *p.b_min;
    high_ = span * (p.upper / 100) + *p.b_min;
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      std::vector<kernels::Rescale> functors;
      for (const auto& found :
           kernels::percentiles(field.tensor, {p.lower, p.upper}, p.channel_wise))
        functors.push_back(kernels::rescale(found[0], found[1], low_, high_, p.clip));
      field.tensor =
          kernels::map(field.tensor, functors).to(result_type(p, field.tensor.scalar_type()));
    });
    f.emit(std::move(out));
  }

 private:
  std::optional<double> low_, high_;
};

const Register<ScaleIntensityRangePercentiles> registered;

}  // namespace
}  // namespace sluice
