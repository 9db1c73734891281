// rand_adjust_contrast: MONAI's RandAdjustContrastd. One draw for all keys.
#include <algorithm>
#include <cmath>

#include "engine/run/registry.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandAdjustContrast final : FusedNode {
  struct Params : RandIntensityParams {
    std::vector<double> gamma{0.5, 4.5};
    bool invert_image = false, retain_stats = false;
  } p;

  static Spec spec() {
    Spec s("rand_adjust_contrast",
           "((x - min) / (range + 1e-7)) ^ gamma * range + min, with one gamma for all keys.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to change, each [C, ...]; they become float32.")
        .param("gamma", &Params::gamma,
               "Bounds of the exponent; one number g above 0.5 stands for [0.5, g].")
        .above(0)
        .length(1, 2)
        .param("invert_image", &Params::invert_image, "Apply it to -x and negate the result.")
        .param("retain_stats", &Params::retain_stats,
               "Give the result the mean and standard deviation that the image had.");
    return add_rand_intensity_params(s).fuses(Fuses::values).any_device();
  }

  void open(const OpenContext& context) override {
    FusedNode::open(context);
    if (p.gamma.size() == 1) p.gamma.insert(p.gamma.begin(), 0.5);
    if (p.gamma.size() != 2 || *std::min_element(p.gamma.begin(), p.gamma.end()) <= 0)
      throw Error(Exit::usage, "gamma needs one number or two, above 0");
    std::sort(p.gamma.begin(), p.gamma.end());
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    const double gamma = random.uniform(p.gamma[0], p.gamma[1]);
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      if (field.tensor.numel() == 0) return;
      auto ops = ops_of(kernels::AugmentKind::contrast,
                        {static_cast<float>(gamma), p.invert_image ? -1.0f : 1.0f});
      if (p.retain_stats) ops.push_back({kernels::AugmentKind::restore});
      change_values(field, std::move(ops),
                    [gamma, inverted = p.invert_image, stats = p.retain_stats](
                        const at::Tensor& from, const at::Tensor& into) {
                      return adjusted(from, into, gamma, inverted, stats);
                    });
    });
    finish(f, std::move(out));
  }

  static at::Tensor adjusted(const at::Tensor& image, const at::Tensor& into, double gamma,
                             bool inverted, bool stats) {
    const kernels::Range range = kernels::ranges(image, false).front();
    kernels::Contrast contrast;
    contrast.low = inverted ? -range.high : range.low;
    contrast.range = range.high - range.low;
    contrast.gamma = gamma;
    contrast.sign = inverted ? -1 : 1;
    kernels::Moments old;
    if (stats) old = kernels::moments(image, false, false).front();
    const at::Tensor out = kernels::map<kernels::Contrast>(image, {contrast}, into);
    return stats ? with_stats(out, old) : out;
  }

  // In place. MONAI's standard deviations are over n - 1 here.
  static at::Tensor with_stats(const at::Tensor& changed, const kernels::Moments& old) {
    const auto now = kernels::moments(changed, false, false).front();
    const double n = old.count, unbiased = n > 1 ? std::sqrt(n / (n - 1)) : 1;
    kernels::Rescale back;
    back.low = now.mean;
    back.range = now.std * unbiased + 1e-8;
    back.gain = old.std * unbiased;
    back.offset = old.mean;
    return kernels::map<kernels::Rescale>(changed, {back}, changed);
  }
};

const Register<RandAdjustContrast> registered;

}  // namespace
}  // namespace sluice
