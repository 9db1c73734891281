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
    const auto amplitude = [&](const at::Tensor& x) {
      return at::fft_fftn(x, {}, dims, "ortho").abs();
    };
    return at::mse_loss(amplitude(truth), amplitude(pred), reduction());
  }
};

const Register<JukeboxLoss> registered;

}  // namespace
}  // namespace sluice
