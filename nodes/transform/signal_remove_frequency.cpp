// signal_remove_frequency: MONAI's SignalRemoveFrequency.
#include "nodes/transform/signal.h"

namespace sluice {
namespace {

struct SignalRemoveFrequency final : SignalNode {
  struct Params : SignalParams {
    double frequency = 50, quality_factor = 1, sampling_freq = 250;
  } p;

  static Spec spec() {
    return signal_spec<Params>("signal_remove_frequency",
                               "Takes a frequency away by a notch filter of the second order, "
                               "forwards and backwards, and cuts the result to -1..1.")
        .param("frequency", &Params::frequency, "The frequency, Hz; below half of sampling_freq.")
        .required()
        .above(0)
        .param("quality_factor", &Params::quality_factor,
               "The frequency over the width of what goes with it.")
        .required()
        .above(0)
        .param("sampling_freq", &Params::sampling_freq, "Steps a second.")
        .required()
        .above(0);
  }

  void open(const OpenContext&) override {
    if (p.frequency * 2 >= p.sampling_freq)
      throw Error(Exit::usage, "frequency must be below half of sampling_freq");
    // scipy.signal.iirnotch, over a[0].
    const double w = 6.283185307179586 * p.frequency / p.sampling_freq;
    const double gain = 1 / (1 + std::tan(w / p.quality_factor / 2));
    b_[0] = b_[2] = gain;
    b_[1] = a_[0] = -2 * gain * std::cos(w);
    a_[1] = 2 * gain - 1;
  }

  void process(Firing& f) override {
    for_each_signal(f, p, [&](const at::Tensor& x) {
      return passed(passed(x).flip(1)).flip(1).clamp(-1, 1).contiguous();
    });
  }

 private:
  at::Tensor passed(const at::Tensor& signal) const {
    const at::Tensor x = signal.contiguous();
    at::Tensor out = at::empty_like(x);
    const std::int64_t n = x.size(1);
    for (std::int64_t c = 0; c < x.size(0); ++c) {
      const float* in = x.const_data_ptr<float>() + c * n;
      float* to = out.mutable_data_ptr<float>() + c * n;
      double x1 = 0, x2 = 0, y1 = 0, y2 = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double y = b_[0] * in[i] + b_[1] * x1 + b_[2] * x2 - a_[0] * y1 - a_[1] * y2;
        x2 = std::exchange(x1, in[i]);
        y2 = std::exchange(y1, y);
        to[i] = static_cast<float>(y);
      }
    }
    return out;
  }

  double b_[3]{}, a_[2]{};
};

const Register<SignalRemoveFrequency> registered;

}  // namespace
}  // namespace sluice
