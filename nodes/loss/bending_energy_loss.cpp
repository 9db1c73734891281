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
    const auto add = [&](const at::Tensor& d, std::int64_t a, std::int64_t b, double factor) {
      const auto extents = static_cast<double>(field.size(a) * field.size(b));
      const at::Tensor sum = squares(scaled(d, field, extents)) * factor;
      energy = energy.defined() ? energy + sum : sum;
    };
    for (std::int64_t a = 2; a < field.dim(); ++a) {
      const std::int64_t n = field.size(a) - 2;
      const at::Tensor line = inner(field, a);
      add(line.narrow(a, 0, n) + line.narrow(a, 2, n) - 2 * inner(field), a, a, 1);
      if (a + 1 == field.dim()) break;
      const at::Tensor slope = difference(field, a);  // twice the derivative
      for (std::int64_t b = a + 1; b < field.dim(); ++b) {
        at::Tensor x = slope;
        for (std::int64_t d = 2; d < field.dim(); ++d)
          if (d != a && d != b) x = x.narrow(d, 1, field.size(d) - 2);
        add(difference(x, b), a, b, 2.0 / 16);
      }
    }
    return energy;
  }
};

const Register<BendingEnergyLoss> registered;

}  // namespace
}  // namespace sluice
