// signal_rand_add_gaussian_noise: MONAI's SignalRandAddGaussianNoise.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRandAddGaussianNoise final : SignalNode {
  struct Params : SignalParams {
    Params() { boundaries = {0.001, 0.02}; }
  } p;

  static Spec spec() {
    return rand_signal_spec<Params>("signal_rand_add_gaussian_noise",
                                    "Adds Gaussian noise, the same to all channels.",
                                    "[low, high] of its standard deviation.");
  }

  void process(Firing& f) override {
    Random random = f.random();
    const double std = between(random, p.boundaries);
    for_each_signal(f, p, [&, random](const at::Tensor& x) mutable {
      at::Tensor noise = at::empty({x.size(1)}, at::kFloat);
      for (std::int64_t i = 0; i < noise.numel(); ++i)
        noise.mutable_data_ptr<float>()[i] = static_cast<float>(std * random.normal());
      return x + noise;
    });
  }
};

const Register<SignalRandAddGaussianNoise> registered;

}  // namespace
}  // namespace sluice
