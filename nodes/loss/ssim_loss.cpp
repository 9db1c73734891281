// ssim_loss: MONAI's SSIMLoss.
#include "engine/graph/param_group.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct SsimLossParams : PairLossParams {
  SsimParams ssim;
};

struct SsimLoss final : PairLoss<SsimLossParams> {
  static Spec spec() {
    Spec s("ssim_loss", "1 - structural similarity of images, the mean over channels and voxels.");
    add_pair_loss<Params>(s);
    SsimParams::each([&](const char* name, auto member, const char* text) {
      param_of(s, name, &Params::ssim, member, text);
    });
    return s;
  }
  bool windowed() const override { return true; }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return reduce(1 - ssim(pred, truth, p.ssim).value.flatten(1).mean(1));
  }
};

const Register<SsimLoss> registered;

}  // namespace
}  // namespace sluice
