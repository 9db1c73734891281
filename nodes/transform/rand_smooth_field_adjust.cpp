// rand_smooth_field_adjust_contrast, rand_smooth_field_adjust_intensity: MONAI's
// RandSmoothFieldAdjustContrastd and RandSmoothFieldAdjustIntensityd. One field for all keys.
#include "nodes/transform/smooth_fields.h"

namespace sluice {
namespace {

struct Adjustment {
  const char *type, *does, *number;
  double low, high;
  at::Tensor (*by)(const at::Tensor& volume, const at::Tensor& field);
};

at::Tensor times(const at::Tensor& volume, const at::Tensor& field) {
  return volume.to(at::kFloat) * field;
}

constexpr Adjustment contrast{
    "rand_smooth_field_adjust_contrast",
    "x^g of the image's own range, with an exponent g that varies smoothly over the image.",
    "exponent",
    0.5,
    4.5,
    field_contrast};
constexpr Adjustment intensity{"rand_smooth_field_adjust_intensity",
                               "x times a factor that varies smoothly over the image.",
                               "factor",
                               0.1,
                               1.0,
                               times};

template <const Adjustment& adjustment>
struct RandSmoothFieldAdjust final : SmoothFieldNode {
  struct Params : SmoothFieldParams {
    std::vector<double> gamma{adjustment.low, adjustment.high};
  } p;

  static Spec spec() {
    Spec s(adjustment.type, adjustment.does);
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to change, each [C, X, Y, Z] or [C, X, Y]; they become float32.")
        .param("gamma", &Params::gamma,
               std::string("Bounds of the ") + adjustment.number +
                   ", [low, high]; one number v stands for [0.5, v].")
        .length(1, 2);
    add_smooth_field_params<Params>(s, "mode", "1");
    return add_rand_intensity_params(s, 2);
  }

  void open(const OpenContext&) override { bounds_ = gamma_bounds(p.gamma); }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field_of, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      Random same = random;  // the same field for each key
                      const at::Tensor field = drawn_field(p, same, bounds_.first, bounds_.second,
                                                           1, 1, shape_of(volume), axes);
                      field_of.tensor = from_volume(adjustment.by(volume, field), axes);
                    });
    f.emit(std::move(out));
  }

 private:
  std::pair<double, double> bounds_;
};

const Register<RandSmoothFieldAdjust<contrast>> registered_contrast;
const Register<RandSmoothFieldAdjust<intensity>> registered_intensity;

}  // namespace
}  // namespace sluice
