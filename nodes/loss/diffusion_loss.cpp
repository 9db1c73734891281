// diffusion_loss: MONAI's DiffusionLoss.
#include "nodes/loss/field_loss.h"

namespace sluice {
namespace {

struct DiffusionLoss final : FieldLoss<FieldLossParams> {
  static Spec spec() {
    Spec s("diffusion_loss", "Squared first derivatives of a displacement field.");
    return add_field_loss<Params>(s);
  }
  at::Tensor of(const at::Tensor& field) const override {
    at::Tensor energy;
    for (std::int64_t a = 2; a < field.dim(); ++a) {
      const at::Tensor d = difference(inner(field, a), a);
      const at::Tensor sum = squares(scaled(d, field, static_cast<double>(field.size(a)))) / 4;
      energy = energy.defined() ? energy + sum : sum;
    }
    return energy;
  }
};

const Register<DiffusionLoss> registered;

}  // namespace
}  // namespace sluice
