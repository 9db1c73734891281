// box_giou_loss: MONAI's BoxGIoULoss.
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
    const std::int64_t axes = pred.size(1) / 2;
    const auto corner = [&](const at::Tensor& boxes, int i) {
      return boxes.narrow(1, i * axes, axes);
    };
    const auto volume = [](const at::Tensor& extents) { return extents.prod(1); };
    const auto box = [&](const at::Tensor& b) { return volume(corner(b, 1) - corner(b, 0)); };
    const at::Tensor both = volume(
        (at::min(corner(pred, 1), corner(truth, 1)) - at::max(corner(pred, 0), corner(truth, 0)))
            .clamp_min(0));
    const at::Tensor hull = volume(
        (at::max(corner(pred, 1), corner(truth, 1)) - at::min(corner(pred, 0), corner(truth, 0)))
            .clamp_min(0));
    const at::Tensor either = box(pred) + box(truth) - both;
    const double least = std::numeric_limits<float>::epsilon();
    return reduce(1 - (both / (either + least) - (hull - either) / (hull + least)));
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
