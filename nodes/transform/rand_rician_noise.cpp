// rand_rician_noise: MONAI's RandRicianNoised.
#include "engine/run/registry.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandRicianNoise final : Node {
  struct Params : RandIntensityParams {
    std::vector<double> mean{0}, std{1};
    bool channel_wise = false, relative = false, sample_std = true;
  } p;

  static Spec spec() {
    Spec s("rand_rician_noise",
           "sqrt((x + n1)^2 + n2^2) with two Gaussian noises: that of the magnitude of MRI.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Fields to add noise to, each [C, ...]; they become float32.")
        .param("mean", &Params::mean, "Mean of both; with channel_wise one, or one a channel.")
        .length(1)
        .param("std", &Params::std,
               "Standard deviation of both; with channel_wise one, or one a channel.")
        .length(1)
        .at_least(0)
        .param("channel_wise", &Params::channel_wise, "Each channel by itself.")
        .param("relative", &Params::relative,
               "std is a factor of the image's (channel's) own standard deviation.")
        .param("sample_std", &Params::sample_std,
               "Draw the standard deviation from [0, std] for each sample.");
    return add_rand_intensity_params(s);
  }

  void open(const OpenContext&) override {
    if (!p.channel_wise && (p.mean.size() > 1 || p.std.size() > 1))
      throw Error(Exit::usage, "lists of mean and std are for channel_wise");
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor x = field.tensor.to(at::kFloat).contiguous();
      if (!p.channel_wise) {
        field.tensor = noisy(x, p.mean[0], p.std[0], random);
        return;
      }
      at::Tensor all = at::empty_like(x);
      for (std::int64_t c = 0; c < x.size(0); ++c)
        all[c].copy_(
            noisy(x[c], channel(p.mean, c, x, p.keys[i]), channel(p.std, c, x, p.keys[i]), random));
      field.tensor = all;
    });
    f.emit(std::move(out));
  }

 private:
  at::Tensor noisy(const at::Tensor& x, double mean, double std, Random& random) const {
    if (p.relative) {
      const auto m = kernels::moments(x, false, false).front();
      const auto n = static_cast<double>(m.count);
      std *= m.std * (n > 1 ? std::sqrt(n / (n - 1)) : 1);  // over n - 1, as torch's
    }
    if (p.sample_std) std = random.uniform(0, std);
    const auto shift = static_cast<float>(mean), width = static_cast<float>(std);
    const Random::Stream one = random.stream(), two = random.stream();
    const at::Tensor a = kernels::add_noise(x, shift, width, one);
    const at::Tensor b = kernels::add_noise(at::zeros_like(x), shift, width, two);
    return at::hypot(a, b);
  }

  static double channel(const std::vector<double>& values, std::int64_t c, const at::Tensor& x,
                        const std::string& key) {
    if (values.size() > 1 && std::ssize(values) != x.size(0))
      throw DataError("field \"" + key + "\" has " + std::to_string(x.size(0)) +
                      " channels, mean or std " + std::to_string(values.size()) + " values");
    return per_key(values, static_cast<std::size_t>(c));
  }
};

const Register<RandRicianNoise> registered;

}  // namespace
}  // namespace sluice
