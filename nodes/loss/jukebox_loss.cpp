// jukebox_loss: MONAI's JukeboxLoss (Dhariwal et al. 2020): likeness of spectra.
#include <numeric>

#include "kernels/base/autograd.h"
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
    if (reduction() == at::Reduction::None || truth.requires_grad()) {
      const auto amplitude = [&](const at::Tensor& x) {
        return at::fft_fftn(x, {}, dims, "ortho").abs();
      };
      return reduce((amplitude(truth) - amplitude(pred)).square());
    }
    // Half of a real image's spectrum says it all: a frequency and its negative have one amplitude.
    // LibTorch's gradient of that half would make the other one too.
    const std::int64_t last = pred.size(-1);
    const auto half = [&](const at::Tensor& x) {
      return at::fft_rfftn(x.detach(), {}, dims, "ortho");
    };
    const at::Tensor spectrum = half(pred), amplitude = spectrum.abs();
    at::Tensor apart = amplitude - half(truth).abs();
    at::Tensor times = at::full({last / 2 + 1}, 2, apart.options());
    times[0] = 1;
    if (last % 2 == 0) times[-1] = 1;
    at::Tensor sum = (apart.square() * times).sum();
    // d/dx of sum (|X| - |T|)^2 is the inverse transform of 2 (|X| - |T|) X / |X|; 0 where X is 0.
    const at::Tensor slope = apart.mul_(2).div_(amplitude).nan_to_num_(0, 0, 0);
    attach("JukeboxBackward", {sum}, {pred},
           Slope{spectrum * slope, {pred.sizes().begin() + 1, pred.sizes().end()}, dims});
    return reduction() == at::Reduction::Sum ? sum : sum / static_cast<double>(pred.numel());
  }

 private:
  struct Slope {
    at::Tensor spectrum;
    std::vector<std::int64_t> sizes, dims;
    std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
      return {at::fft_irfftn(spectrum, sizes, dims, "ortho").mul_(grads[0])};
    }
  };
};

const Register<JukeboxLoss> registered;

}  // namespace
}  // namespace sluice
