// bending_energy_loss: MONAI's BendingEnergyLoss.
#include "nodes/loss/field_loss.h"

namespace sluice {
namespace {

struct BendingEnergyLoss final : FieldLoss<FieldLossParams> {
  static Spec spec() {
    Spec s("bending_energy_loss", "Squared second derivatives of a displacement field.");
    return add_field_loss<Params>(s);
  }
  at::Tensor of(const at::Tensor& field) const override {
    at::Tensor energy;
    for (std::int64_t a = 2; a < field.dim(); ++a)
      for (std::int64_t b = a; b < field.dim(); ++b) {
        at::Tensor d;
        if (a == b)
          d = inner(field, a, 1) - 2 * inner(field) + inner(field, a, -1);
        else
          d = (inner(field, a, 1, b, 1) - inner(field, a, 1, b, -1) - inner(field, a, -1, b, 1) +
               inner(field, a, -1, b, -1)) /
              4;
        d = scaled(d, field, static_cast<double>(field.size(a) * field.size(b))).square();
        if (a != b) d = 2 * d;
        energy = energy.defined() ? energy + d : d;
      }
    return energy;
  }
};

const Register<BendingEnergyLoss> registered;

}  // namespace
}  // namespace sluice
