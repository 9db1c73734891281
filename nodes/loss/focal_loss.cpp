// focal_loss: MONAI's FocalLoss (Lin et al. 2017).
#include "nodes/loss/focal_alpha.h"
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct FocalLossParams : TermLossParams {
  double gamma = 2;
  std::optional<FocalAlpha> alpha;
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
               "A number, 0 to 1: weight of the foreground, with 1 - alpha for the background. A "
               "list, of one entry too: weight of each class that counts (without use_softmax only "
               "where the truth is 1).")
        .param("use_softmax", &Params::use_softmax,
               "Of the softmax over classes; else each class's sigmoid by itself.");
  }
  void open(const OpenContext& context) override {
    TermLoss::open(context);
    if (p.alpha && !p.alpha->by_class && !(p.alpha->value() >= 0 && p.alpha->value() <= 1))
      throw Error(Exit::usage,
                  "alpha is a number from 0 to 1, or a list of a weight for each "
                  "class, found " +
                      Json(p.alpha->value()).dump());
  }
  bool weighted_too() const override { return p.alpha && (p.alpha->by_class || p.use_softmax); }
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
    if (p.alpha->by_class) return by_class(loss, y, p.alpha->values);
    const double a = p.alpha->value();
    if (!p.use_softmax) return loss * (y * a + (1 - y) * (1 - a));
    if (!p.target.include_background) return loss;  // MONAI: it has no meaning without it
    std::vector<double> weights(static_cast<std::size_t>(y.size(1)), a);
    weights[0] = 1 - a;
    return by_class(loss, y, weights);
  }
  at::Tensor by_class(const at::Tensor& loss, const at::Tensor& y,
                      const std::vector<double>& weights) const {
    const std::int64_t classes = y.size(1);
    if (std::ssize(weights) != classes)
      throw Error(Exit::usage, "alpha has " + std::to_string(weights.size()) + " values for " +
                                   std::to_string(classes) + " classes");
    const at::Tensor w = channel_weights(weights, loss);
    return loss * (p.use_softmax ? w : at::where(y.eq(1), w, at::ones_like(w)));
  }
};

const Register<FocalLoss> registered;

}  // namespace
}  // namespace sluice
