// rand_color_jitter: torchvision's ColorJitter, as RandTorchVisiond(name="ColorJitter") uses it.
// One draw for all keys.
#include <numeric>

#include "engine/run/registry.h"
#include "kernels/augment/color.h"
#include "nodes/transform/fused.h"

namespace sluice {
namespace {

using kernels::Jitter, kernels::JitterStep;

struct RandColorJitter final : FusedNode {
  struct Params {
    std::vector<std::string> keys{"image"};
    std::vector<double> brightness{0}, contrast{0}, saturation{0}, hue{0};
    double prob = 1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("rand_color_jitter",
                "Changes brightness, contrast, saturation and hue at random, in random order.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields [3, ...] (or [1, ...]): uint8, or floats in 0..1; their type stays.")
        .param("brightness", &Params::brightness,
               "Bounds of the factor; one number v stands for [max(0, 1 - v), 1 + v].")
        .at_least(0)
        .length(1, 2)
        .param("contrast", &Params::contrast, "The same for the distance from the mean gray.")
        .at_least(0)
        .length(1, 2)
        .param("saturation", &Params::saturation, "The same for the distance from gray.")
        .at_least(0)
        .length(1, 2)
        .param("hue", &Params::hue, "Bounds of a turn of the hue; one number v stands for [-v, v].")
        .range(-0.5, 0.5)
        .length(1, 2)
        .param("prob", &Params::prob, "Probability that a sample is changed.")
        .range(0, 1)
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .random()
        .fuses(Fuses::values)
        .any_device()
        .takes("@keys", Form::image);
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return pass(f);
    std::array<Jitter, 4> order{Jitter::brightness, Jitter::contrast, Jitter::saturation,
                                Jitter::hue};
    std::array<double, 4> by;
    for (std::size_t i = 0; i < 4; ++i) by[i] = draw(random, range(i));
    for (std::size_t i = 3; i > 0; --i) std::swap(order[i], order[random.integer(i + 1)]);
    std::vector<JitterStep> steps;
    for (const Jitter what : order) {
      const auto i = static_cast<std::size_t>(what);
      const double nothing = what == Jitter::hue ? 0 : 1;
      if (by[i] != nothing) steps.push_back({what, by[i]});
    }
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      if (!steps.empty()) change_colors(field, steps);
    });
    finish(f, std::move(out));
  }

 private:
  void change_colors(Field& field, const std::vector<JitterStep>& steps) const {
    const auto jitter = [steps](const at::Tensor& from, const at::Tensor& into) {
      return kernels::jitter(from, steps, into);
    };
    if (!done_as_jobs(field.tensor)) return change_on_host(field, jitter);
    PendingStep step = changed({}, jitter);
    if (dtype_of(field) != at::kFloat) step.limited = "colour jitter of anything but float32";
    for (const JitterStep& s : steps)
      if (field.tensor.size(0) > 1 || s.what == Jitter::brightness || s.what == Jitter::contrast)
        step.ops.push_back(op_of(s));
    append(field, std::move(step));
  }

  static kernels::AugmentOp op_of(const JitterStep& s) {
    using kernels::AugmentKind, kernels::all_channels;
    const auto by = static_cast<float>(s.by), rest = static_cast<float>(1 - s.by);
    switch (s.what) {
      case Jitter::brightness:  // held within 0..1
        return {AugmentKind::rescale, all_channels, {0, 1, by, 0, 0, 1}};
      case Jitter::contrast:
        return {AugmentKind::gray_contrast, all_channels, {by}};
      case Jitter::saturation:
        return {AugmentKind::saturation, all_channels, {by, rest}};
      default:
        return {AugmentKind::hue, all_channels, {by}};
    }
  }

  std::pair<double, double> range(std::size_t i) const {
    const std::vector<double>* all[]{&p.brightness, &p.contrast, &p.saturation, &p.hue};
    const std::vector<double>& v = *all[i];
    if (i == 3 || v.size() == 2) return bounds(v);
    return {std::max(0.0, 1 - v[0]), 1 + v[0]};
  }
};

const Register<RandColorJitter> registered;

}  // namespace
}  // namespace sluice
