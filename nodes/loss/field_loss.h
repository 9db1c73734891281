// Losses of a displacement field alone, [N, axes, ...]: how smooth it is.
#pragma once

#include "kernels/base/autograd.h"
#include "kernels/loss/sum_of_terms.h"
#include "nodes/loss/loss.h"

namespace sluice {

struct FieldLossParams : LossParams {
  std::string reduction = "mean";
  bool normalize = false;
};

template <class Params>
Spec& add_field_loss(Spec& s) {
  return add_loss_params<Params>(s, "Field with displacements [N, axes, ...], in voxels.",
                                 Form::batch)
      .param("normalize", &Params::normalize, "Of displacements in shares of the extents.")
      .param("reduction", &Params::reduction, "Over all inner voxels.")
      .choices({"mean", "sum"})
      .couples()
      .when("reduction", "sum");
}

template <class P>
class FieldLoss : public LossOf<P> {
 public:
  using LossOf<P>::p;

 protected:
  // What is summed up, of a field of these extents.
  virtual std::vector<LossTerm> terms(const at::Tensor& field) const = 0;

  // The sum or the mean of a derivative's squares; nobody else reads the derivative.
  at::Tensor squares(const at::Tensor& derivative) const {
    const at::Tensor d = derivative.detach();
    const bool mean = p.reduction == "mean";
    const at::Tensor sum = mean ? d.square().mean() : d.square().sum();
    attach("SquaresBackward", {sum}, {derivative},
           Squares{d, 2 / (mean ? static_cast<double>(d.numel()) : 1)});
    return sum;
  }

  // x without the outermost voxels of each axis but `but`.
  static at::Tensor inner(at::Tensor x, std::int64_t but = 0) {
    for (std::int64_t d = 2; d < x.dim(); ++d)
      if (d != but) x = x.narrow(d, 1, x.size(d) - 2);
    return x;
  }
  // The voxel after less the one before, along an axis that gets two voxels shorter.
  static at::Tensor difference(const at::Tensor& x, std::int64_t axis) {
    const std::int64_t n = x.size(axis) - 2;
    return x.narrow(axis, 2, n) - x.narrow(axis, 0, n);
  }

  // A derivative along axes whose extents multiply to `extents`, in units of each component's axis.
  at::Tensor scaled(const at::Tensor& derivative, const at::Tensor& field, double extents) const {
    if (!p.normalize) return derivative;
    std::vector<at::Tensor> components;
    for (std::int64_t c = 0; c < field.size(1); ++c)
      components.push_back(derivative.narrow(1, c, 1) *
                           (extents / static_cast<double>(field.size(c + 2))));
    return at::cat(components, 1);
  }

 private:
  struct Squares {
    at::Tensor d;
    double factor;
    std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
      return {d * (grads[0] * factor)};
    }
    std::vector<at::Tensor> last_backward(const std::vector<at::Tensor>& grads) const {
      return {d.mul_(grads[0] * factor)};
    }
  };

  at::Tensor loss(const at::Tensor& pred, const Firing&) const final {
    const at::Tensor field = pred.to(float_type(pred));
    return sum_of_terms(field, terms(field));
  }
  void check(const at::Tensor& pred, Firing&) const final {
    bool fits = pred.dim() >= 3 && pred.size(1) == pred.dim() - 2;
    for (std::int64_t d = 2; d < pred.dim(); ++d) fits = fits && pred.size(d) > 2;
    if (!fits)
      throw DataError("the output " + c10::str(pred.sizes()) +
                      " is no field [N, axes, ...] of at least 3 voxels an axis");
  }
};

}  // namespace sluice
