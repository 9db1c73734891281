// rand_fourier_dropout: the Model Zoo's RandFourierDropoutd (bundle valve_landmarks). One draw for
// all keys of whether they are changed, numbers of its own for each.
#include "engine/run/registry.h"
#include "nodes/transform/fourier.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandFourierDropout final : Node {
  struct Params : RandIntensityParams {
    double min_dist = 0.1, max_dist = 0.9;
  } p;

  static Spec spec() {
    Spec s("rand_fourier_dropout",
           "Takes frequencies away, those far from the zero one more often: noise like MRI's.");
    add_changed_keys(s)
        .param("min_dist", &Params::min_dist,
               "Frequencies nearer to the zero one stay; 1 is the middle of the spectrum's edge.")
        .at_least(0)
        .at_most("max_dist")
        .param("max_dist", &Params::max_dist, "Those farther away all go.")
        .at_least(0);
    return add_rand_intensity_params(s).any_device();
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t) {
      const at::Tensor k = to_k_space(field.tensor);
      at::Tensor farthest = at::empty(k.sizes(), at::kFloat);
      auto* to = farthest.mutable_data_ptr<float>();
      for (std::int64_t i = 0; i < farthest.numel(); ++i)
        to[i] = static_cast<float>(random.uniform(p.min_dist, p.max_dist));
      const at::Tensor kept = farthest.to(k.device()).ge(distances(k));
      field.tensor = from_k_space(k * kept);
    });
    f.emit(std::move(out));
  }

 private:
  // Of each frequency to the zero one.
  static at::Tensor distances(const at::Tensor& k) {
    at::Tensor squares = at::zeros({1}, k.options().dtype(at::kFloat));
    for (const std::int64_t axis : axes_behind_channels(k)) {
      std::vector<std::int64_t> shape(static_cast<std::size_t>(k.dim()), 1);
      shape[static_cast<std::size_t>(axis)] = k.size(axis);
      squares = squares + at::linspace(-1, 1, k.size(axis), squares.options()).square().view(shape);
    }
    return squares.sqrt();
  }
};

const Register<RandFourierDropout> registered;

}  // namespace
}  // namespace sluice
