// focal_loss: MONAI's FocalLoss (Lin et al. 2017).
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct FocalLossParams : TermLossParams {
  double gamma = 2;
  std::optional<std::vector<double>> alpha;
  bool use_softmax = false;
};

struct FocalLoss final : TermLoss<FocalLossParams> {
  static Spec spec() {
    Spec s("focal_loss", "Cross entropy that counts less where the output is right already.");
    add_label_loss<Params>(s);
    add_to_onehot(s);
    add_background(s);
    add_no_reduction(add_target_reduction(s));
    add_class_weight(s);
    add_ignore_index(s);
    return s.param("gamma", &Params::gamma, "How much less a voxel counts that is right already.")
        .at_least(0)
        .param("alpha", &Params::alpha,
               "Weight of the foreground, with 1 - alpha for the background; several: of each "
               "class that counts (without use_softmax only where the truth is 1).")
        .param("use_softmax", &Params::use_softmax,
               "Of the softmax over classes; else each class's sigmoid by itself.");
  }
  bool weighted_too() const override { return p.alpha && p.alpha->size() > 1; }
  at::Tensor of(const Target& t) const override {
    const at::Tensor x = t.counted_logits();
    const at::Tensor& y = t.truth();
    at::Tensor loss;
    if (p.use_softmax) {
      const at::Tensor log = at::log_softmax(x, 1);
      loss = -(1 - log.exp()).pow(p.gamma) * log * y;
    } else {
      loss = sigmoid_focal(x, y, {p.gamma, std::nullopt});
    }
    if (p.alpha) loss = balanced(loss, y);
    return focal_mean(t, t.options.ignore_index ? loss * t.counts() : loss);
  }

 private:
  at::Tensor balanced(const at::Tensor& loss, const at::Tensor& y) const {
    const std::vector<double>& a = *p.alpha;
    const std::int64_t classes = y.size(1);
    if (a.size() == 1 && !p.use_softmax) return loss * (y * a[0] + (1 - y) * (1 - a[0]));
    std::vector<double> by_class = a;
    if (a.size() == 1) {  // MONAI: it has no meaning without the background
      if (!p.target.include_background) return loss;
      by_class.assign(static_cast<std::size_t>(classes), a[0]);
      by_class[0] = 1 - a[0];
    }
    if (std::ssize(by_class) != classes)
      throw Error(Exit::usage, "alpha has " + std::to_string(by_class.size()) + " values for " +
                                   std::to_string(classes) + " classes");
    const at::Tensor w = channel_weights(by_class, loss);
    return loss * (p.use_softmax ? w : at::where(y.eq(1), w, at::ones_like(w)));
  }
};

const Register<FocalLoss> registered;

}  // namespace
}  // namespace sluice
