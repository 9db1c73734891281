// jukebox_loss: MONAI's JukeboxLoss (Dhariwal et al. 2020): likeness of spectra.
#include <numeric>

#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct JukeboxLoss final : PairLoss<PairLossParams> {
  static Spec spec() {
    Spec s("jukebox_loss",
           "The squared difference of the Fourier amplitudes over channels and space.");
    return add_pair_loss<Params>(s);
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(pred.dim()) - 1);
    std::iota(dims.begin(), dims.end(), 1);
    if (reduction() == at::Reduction::None) {
      const auto amplitude = [&](const at::Tensor& x) {
        return at::fft_fftn(x, {}, dims, "ortho").abs();
      };
      return (amplitude(truth) - amplitude(pred)).square();
    }
    // Half of a real image's spectrum says it all: a frequency and its negative have one amplitude.
    const std::int64_t last = pred.size(-1);
    const auto amplitude = [&](const at::Tensor& x) {
      return at::fft_rfftn(x, {}, dims, "ortho").abs();
    };
    at::Tensor times = at::full({last / 2 + 1}, 2, pred.options().requires_grad(false));
    times[0] = 1;
    if (last % 2 == 0) times[-1] = 1;
    const at::Tensor sum = ((amplitude(truth) - amplitude(pred)).square() * times).sum();
    return reduction() == at::Reduction::Sum ? sum : sum / static_cast<double>(pred.numel());
  }
};

const Register<JukeboxLoss> registered;

}  // namespace
}  // namespace sluice
