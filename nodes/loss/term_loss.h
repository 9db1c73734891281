// Losses over classes: a sum of terms (kernels/loss/terms.h) of one Target.
//
//   struct DiceFocalLoss final : TermLoss<DiceFocalParams> {
//     static Spec spec() { ... add_term_loss<Params>(s) ... add_dice_term(s, &Params::dice) ... }
//     at::Tensor of(const Target& t) const override {
//       return dice(t, p.dice) + p.lambda_focal * focal(t, p.focal);
//     }
//   };
#pragma once

#include "engine/base/warnings.h"
#include "engine/graph/param_group.h"
#include "kernels/loss/terms.h"
#include "nodes/loss/loss.h"

namespace sluice {

template <>
struct ParamType<Reduce> {
  static std::string name() { return "string"; }
  static Reduce parse(const Json& j) {
    const std::string name = ParamType<std::string>::parse(j);
    return name == "sum" ? Reduce::sum : name == "none" ? Reduce::none : Reduce::mean;
  }
  static Json write(Reduce r) {
    return r == Reduce::sum ? "sum" : r == Reduce::none ? "none" : "mean";
  }
};

struct TermLossParams : LossParams {
  TargetOptions target;
  std::optional<std::string> mask_key;
};

// Output, label and mask.
template <class Params>
Spec& add_label_loss(Spec& s) {
  add_loss_params<Params>(s,
                          "Field with the network's output, logits [N, C, ...], or several "
                          "stacked, [N, outputs, C, ...].",
                          Form::batch);
  return add_label_key<Params>(s, "Field with the truth, [N, 1, ...] class indices or [N, C, ...].")
      .param("mask_key", &Params::mask_key,
             "A field [N, 1, ...] that output and label are multiplied with (MONAI's MaskedLoss; "
             "MaskedDiceLoss: dice_loss multiplies the activated output).")
      .takes("@label_key", Form::batch)
      .takes("@mask_key", Form::batch)
      .when("mask_key");
}

inline Spec& add_to_onehot(Spec& s) {
  return param_of(s, "to_onehot_y", &TermLossParams::target, &TargetParams::to_onehot_y,
                  "The label holds class indices.");
}

inline Spec& add_background(Spec& s) {
  return param_of(s, "include_background", &TermLossParams::target,
                  &TargetParams::include_background, "Count class 0 too.");
}

inline Spec& add_target_reduction(Spec& s) {
  return param_of(s, "reduction", &TermLossParams::target, &TargetParams::reduction,
                  "Over samples and classes.")
      .choices({"mean", "sum"})
      .couples()
      .when("reduction", "sum");
}

inline Spec& add_ignore_index(Spec& s) {
  return param_of(
      s, "ignore_index", &TermLossParams::target, &TargetOptions::ignore_index,
      "Voxels of this label do not count. As many as the output has channels: also of a "
      "label [N, C + 1, ...], whose last channel is set where nothing counts.");
}

inline Spec& add_soft_label(Spec& s) {
  return param_of(
      s, "soft_label", &TermLossParams::target, &TargetOptions::soft_label,
      "The label holds shares of classes: what agrees counts, by absolute differences.");
}

template <class Params>
Spec& add_term_loss(Spec& s) {
  using P = TermLossParams;
  add_label_loss<Params>(s);
  add_background(s);
  add_to_onehot(s);
  param_of(s, "sigmoid", &P::target, &TargetParams::sigmoid, "Of the output's sigmoid.");
  param_of(s, "softmax", &P::target, &TargetParams::softmax,
           "Of the output's softmax over classes.");
  param_of(s, "batch", &P::target, &TargetParams::batch,
           "Sums run over the whole batch, not each sample.");
  s.couples().when("batch", true);
  add_target_reduction(s);
  param_of(s, "other_act", &P::target, &TargetOptions::other_act,
           "Another activation of the output.")
      .choices({"relu", "tanh", "elu", "softplus"});
  return s.exclusive("sigmoid", "softmax")
      .exclusive("sigmoid", "other_act")
      .exclusive("softmax", "other_act");
}

inline Spec& add_class_weight(Spec& s) {
  return param_of(s, "weight", &TermLossParams::target, &TargetOptions::weight,
                  "By class; one value: for all.");
}

// "lambda_dice": the factor of a term, at least 0.
template <class P>
Spec& add_factor(Spec& s, std::string key, double P::*factor, std::string text) {
  return s.param(std::move(key), factor, std::move(text)).at_least(0);
}

// Of a quotient of sums over voxels.
template <class P, class G>
Spec& add_smoothing(Spec& s, G P::*term) {
  param_of(s, "smooth_nr", term, &G::smooth_nr, "Added to the numerator, voxels.");
  return param_of(s, "smooth_dr", term, &G::smooth_dr, "Added to the denominator, voxels.");
}

template <class P>
Spec& add_dice_term(Spec& s, DiceTerm P::*term) {
  param_of(s, "squared_pred", term, &DiceTerm::squared_pred,
           "Squares in the denominator (V-Net's form).");
  param_of(s, "jaccard", term, &DiceTerm::jaccard, "Soft Jaccard index instead of Dice.");
  return add_smoothing(s, term);
}

template <class P>
Spec& add_focal_term(Spec& s, FocalTerm P::*term) {
  param_of(s, "gamma", term, &FocalTerm::gamma,
           "How much less a voxel counts in the focal term that is right already.")
      .at_least(0);
  return param_of(s, "alpha", term, &FocalTerm::alpha,
                  "The focal term's weight of the foreground, with 1 - alpha for the background.")
      .range(0, 1);
}

template <class P>
Spec& add_generalized_dice_term(Spec& s, GeneralizedDiceTerm P::*term) {
  param_of(
      s, "w_type", term, &GeneralizedDiceTerm::w_type,
      "A class's weight, of its voxels T in the label: square: 1 / T^2; simple: 1 / T; uniform: 1.")
      .choices({"square", "simple", "uniform"});
  return add_smoothing(s, term);
}

template <class P>
class TermLoss : public LossOf<P> {
 public:
  using LossOf<P>::p;
  void open(const OpenContext& context) override {
    LossOf<P>::open(context);
    if (p.target.sigmoid + p.target.softmax + p.target.other_act.has_value() > 1)
      throw Error(Exit::usage, "sigmoid, softmax and other_act exclude each other");
  }

 protected:
  virtual at::Tensor of(const Target& t) const = 0;
  // Whether other weights than the classes' are taken from the host.
  virtual bool weighted_too() const { return false; }
  // Whether the mask is a factor of the activated output, else of the output.
  virtual bool masks_activated() const { return false; }
  // How many classes may have weights of their own: those that count, or all.
  virtual std::int64_t weights(const Target& t) const { return t.counted(); }

 private:
  bool weighted() const final { return p.target.weight.has_value() || weighted_too(); }
  bool stacked(const at::Tensor& pred, const Sample& s) const final {
    return pred.dim() == s.tensor(p.label_key).dim() + 1;
  }

  at::Tensor loss(const at::Tensor& pred, const Firing& f) const final {
    const at::Tensor label = this->on_grid(pred, f.in(), p.label_key);
    if (!p.mask_key) return of(Target(pred, label, p.target));
    const at::Tensor mask = this->on_grid(pred, f.in(), *p.mask_key).to(at::kFloat);
    if (masks_activated()) return of(Target(pred, label * mask, p.target, mask));
    return of(Target(pred * mask, label * mask, p.target));
  }

  // Shapes fit, weights are as many as classes, and class indices exist.
  void check(const at::Tensor& pred, Firing& f) const final {
    const Sample& s = f.in();
    const Field& field = s.at(p.label_key);
    const at::Tensor label = this->on_grid(pred, s, p.label_key);
    const std::int64_t classes = pred.size(1), given = label.size(1);
    auto spatial = pred.sizes().vec();
    spatial[1] = given;
    const bool indices = given == 1 && classes > 1;
    const bool marked = given == classes + 1 && p.target.ignore_index == classes;
    if (label.sizes() != at::IntArrayRef(spatial) || (given != classes && !indices && !marked))
      throw DataError("label " + c10::str(label.sizes()) + " does not fit the output " +
                      c10::str(pred.sizes()));
    if (indices != (p.target.to_onehot_y && classes > 1))
      throw DataError(indices ? "the label holds class indices: set to_onehot_y"
                              : "to_onehot_y needs a label [N, 1, ...] of class indices, got " +
                                    c10::str(label.sizes()));
    if (classes == 1 && (p.target.softmax || p.target.to_onehot_y))
      warn("the output has one channel: " +
           std::string(p.target.softmax && p.target.to_onehot_y ? "softmax and to_onehot_y change"
                       : p.target.softmax                       ? "softmax changes"
                                                                : "to_onehot_y changes") +
           " nothing");
    const auto wanted = static_cast<std::size_t>(weights(Target(pred, label, p.target)));
    if (const auto& w = p.target.weight; w && w->size() != 1 && w->size() != wanted)
      throw Error(Exit::usage, "weight has " + std::to_string(w->size()) + " values for " +
                                   std::to_string(wanted) + " classes");
    if (!indices) return;
    const bool first_epoch = f.stamp().epoch == 0;
    f.when_done([this, &s, &field, classes, first_epoch] {
      const at::Tensor& given = field.tensor;
      const auto& ignored = p.target.ignore_index;
      const at::Tensor known = ignored ? given.masked_fill(given.eq(*ignored), 0) : given;
      if (const auto bad = find_bad_label(known, classes))
        throw bad_label(s, field, bad->sample, Json(bad->value).dump(), classes);
      if (first_epoch && given.is_floating_point() && !given.equal(given.trunc()))
        warn(
            "\"" + p.label_key +
            "\" has values that are no whole numbers; as class indices they are cut to whole ones: "
            "was it resampled linearly? (mode \"nearest\" keeps classes)");
    });
  }
};

}  // namespace sluice
