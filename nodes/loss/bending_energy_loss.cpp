// bending_energy_loss: MONAI's BendingEnergyLoss.
#include "nodes/loss/field_loss.h"

namespace sluice {
namespace {

struct BendingEnergyLoss final : FieldLoss<FieldLossParams> {
  static Spec spec() {
    Spec s("bending_energy_loss", "Squared second derivatives of a displacement field.");
    return add_field_loss<Params>(s);
  }
  std::vector<LossTerm> terms(const at::Tensor& field) const override {
    std::vector<LossTerm> all;
    for (std::int64_t a = 2; a < field.dim(); ++a)
      for (std::int64_t b = a; b < field.dim(); ++b)
        all.emplace_back([this, a, b](const at::Tensor& x) {
          const auto extents = static_cast<double>(x.size(a) * x.size(b));
          return squares(scaled(a == b ? bend(x, a) : twist(x, a, b), x, extents)) *
                 (a == b ? 1 : 2.0 / 16);
        });
    return all;
  }

 private:
  static at::Tensor bend(const at::Tensor& x, std::int64_t a) {
    const std::int64_t n = x.size(a) - 2;
    const at::Tensor line = inner(x, a);
    return line.narrow(a, 0, n) + line.narrow(a, 2, n) - 2 * inner(x);
  }
  // Four times the derivative by both.
  static at::Tensor twist(const at::Tensor& x, std::int64_t a, std::int64_t b) {
    at::Tensor slope = difference(x, a);
    for (std::int64_t d = 2; d < x.dim(); ++d)
      if (d != a && d != b) slope = slope.narrow(d, 1, x.size(d) - 2);
    return difference(slope, b);
  }
};

const Register<BendingEnergyLoss> registered;

}  // namespace
}  // namespace sluice
