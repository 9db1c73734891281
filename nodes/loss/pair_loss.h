// Losses of a prediction and a truth of its shape, value by value or as images.
//
//   struct MseLoss final : PairLoss<PairLossParams> {
//     static Spec spec() { ... return add_pair_loss<Params>(s); }
//     at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const override {
//       return at::mse_loss(pred, truth, reduction());
//     }
//   };
//
// Invariant: both are float32 (or float64) and of one shape.
#pragma once

#include "kernels/loss/similarity.h"
#include "nodes/fields.h"
#include "nodes/loss/loss.h"

namespace sluice {

struct PairLossParams : LossParams {
  std::string reduction = "mean";
  std::optional<std::string> mask_key, rows_key;
  std::optional<std::vector<double>> scales;
  std::string scale_kernel = "gaussian";
};

// Losses without a sum: of vectors, or of whole batches.
template <class Params>
Spec& add_plain_pair_loss(Spec& s, const char* pred = "Field with the network's output.",
                          const char* truth = "Field with the truth, of the output's shape.") {
  add_loss_params<Params>(s, pred, Form::any, 0);
  return add_label_key<Params>(s, truth).takes("@label_key", Form::any, 0);
}

template <class Params>
Spec& add_reduction(Spec& s) {
  return s.param("reduction", &Params::reduction, "Over all values.")
      .choices({"mean", "sum"})
      .couples()
      .when("reduction", "sum");
}

template <class Params>
Spec& add_pair_loss(Spec& s) {
  add_plain_pair_loss<Params>(s);
  add_reduction<Params>(s);
  return s
      .param("mask_key", &Params::mask_key,
             "A field that output and truth are multiplied with first (MONAI's MaskedLoss).")
      .param("rows_key", &Params::rows_key,
             "A field of one number a member: the loss is of those where it is not 0; where all "
             "are 0 it is 0, and has no gradient.")
      .param("scales", &Params::scales,
             "Reduces the loss over smoothed copies of both too (MONAI's MultiScaleLoss): the "
             "standard deviation of each, voxels; 0: as they are.")
      .param("scale_kernel", &Params::scale_kernel, "What smooths.")
      .choices({"gaussian", "cauchy"})
      .takes("@mask_key", Form::any, 0)
      .when("mask_key")
      .takes("@rows_key", Form::any, 0)
      .when("rows_key");
}

template <class P>
class PairLoss : public LossOf<P> {
 public:
  using LossOf<P>::p;

 protected:
  virtual at::Tensor of(const at::Tensor& pred, const at::Tensor& truth) const = 0;

  // Whether windows' weights are taken from the host at each step.
  virtual bool windowed() const { return false; }
  bool on_host() const final { return p.scales || p.rows_key || windowed(); }

  std::int64_t reduction() const {
    return p.reduction == "mean"   ? at::Reduction::Mean
           : p.reduction == "none" ? at::Reduction::None
                                   : at::Reduction::Sum;
  }
  at::Tensor reduce(const at::Tensor& values) const {
    if (p.reduction == "none") return values;
    return p.reduction == "sum" ? values.sum() : values.mean();
  }

 private:
  at::Tensor loss(const at::Tensor& given, const Firing& f) const final {
    const auto type = float_type(given);
    at::Tensor pred = given.to(type), mask;
    at::Tensor truth = this->on_grid(given, f.in(), p.label_key).to(type);
    if (p.mask_key) mask = this->on_grid(given, f.in(), *p.mask_key).to(type);
    if (p.rows_key) {
      const at::Tensor rows = f.in().tensor(*p.rows_key).reshape({-1}).ne(0);
      if (rows.size(0) != pred.size(0))
        throw DataError("\"" + *p.rows_key + "\" has " + std::to_string(rows.size(0)) +
                        " numbers for a batch of " + std::to_string(pred.size(0)));
      const at::Tensor which = rows.to(pred.device()).nonzero().squeeze(1);
      if (which.numel() == 0) return at::zeros({}, pred.options().requires_grad(false));
      // A mask may also be one for all members.
      const bool by_member = mask.defined() && mask.dim() == pred.dim() && mask.size(0) > 1;
      if (by_member) mask = mask.index_select(0, which);
      pred = pred.index_select(0, which);
      truth = truth.index_select(0, which);
    }
    if (mask.defined()) {
      pred = pred * mask;
      truth = truth * mask;
    }
    if (!p.scales) return of(pred, truth);
    std::vector<at::Tensor> all;
    for (const double scale : *p.scales) {
      if (scale == 0) {
        all.push_back(of(pred, truth));
        continue;
      }
      const auto kernel = scale_kernel(scale, p.scale_kernel);
      all.push_back(of(filtered(pred, kernel), filtered(truth, kernel)));
    }
    return reduce(at::stack(all));
  }

  void check(const at::Tensor& pred, Firing& f) const final {
    const at::Tensor truth = this->on_grid(pred, f.in(), p.label_key);
    if (truth.sizes() != pred.sizes())
      throw DataError("\"" + p.label_key + "\" " + c10::str(truth.sizes()) +
                      " has not the shape of the output, " + c10::str(pred.sizes()) +
                      as_vector(p.label_key, truth, pred));
    fits(pred);
    look(f);
  }
  virtual void fits(const at::Tensor& pred) const { (void)pred; }
  // Refuses values, which are there when the device is done.
  virtual void look(Firing& f) const { (void)f; }
};

}  // namespace sluice
