// Losses of a displacement field alone, [N, axes, ...]: how smooth it is.
#pragma once

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
      .choices({"mean", "sum"});
}

template <class P>
class FieldLoss : public LossOf<P> {
 public:
  using LossOf<P>::p;

 protected:
  virtual at::Tensor of(const at::Tensor& field) const = 0;

  // The field without the outermost voxels, from `by` voxels further along axis a (and b).
  static at::Tensor inner(const at::Tensor& field, std::int64_t a = 0, int by = 0,
                          std::int64_t b = 0, int by_b = 0) {
    at::Tensor x = field;
    for (std::int64_t d = 2; d < field.dim(); ++d) {
      const int shift = d == a ? by : d == b ? by_b : 0;
      x = x.narrow(d, 1 + shift, field.size(d) - 2);
    }
    return x;
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
  at::Tensor loss(const at::Tensor& pred, const Firing&) const final {
    const at::Tensor energy =
        of(pred.to(pred.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
    return p.reduction == "mean" ? energy.mean() : energy.sum();
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
