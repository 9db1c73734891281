// box_giou_loss: MONAI's BoxGIoULoss.
#include "kernels/image/anchors.h"
#include "nodes/loss/pair_loss.h"

namespace sluice {
namespace {

struct BoxGiouLoss final : PairLoss<PairLossParams> {
  static Spec spec() {
    Spec s("box_giou_loss", "1 - generalised intersection over union of each box with its truth.");
    add_plain_pair_loss<Params>(s, "Field with boxes [N, 2 axes]: least corner, greatest corner.",
                                "Field with their truths.");
    return add_reduction<Params>(s);
  }
  at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
    return reduce(1 - box_pair_giou(pred, truth));
  }

 private:
  void fits(const at::Tensor& pred) const override {
    if (pred.dim() != 2 || pred.size(1) % 2 != 0)
      throw DataError("\"" + p.key[0] + "\" " + c10::str(pred.sizes()) +
                      " is no boxes [N, 4] or [N, 6]");
  }
};

const Register<BoxGiouLoss> registered;

}  // namespace
}  // namespace sluice
