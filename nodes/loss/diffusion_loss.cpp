// diffusion_loss: MONAI's DiffusionLoss.
#include "nodes/loss/field_loss.h"

namespace sluice {
namespace {

struct DiffusionLoss final : FieldLoss<FieldLossParams> {
  static Spec spec() {
    Spec s("diffusion_loss", "Squared first derivatives of a displacement field.");
    return add_field_loss<Params>(s);
  }
  std::vector<LossTerm> terms(const at::Tensor& field) const override {
    std::vector<LossTerm> all;
    for (std::int64_t a = 2; a < field.dim(); ++a)
      all.emplace_back([this, a](const at::Tensor& x) {
        const at::Tensor d = difference(inner(x, a), a);
        return squares(scaled(d, x, static_cast<double>(x.size(a)))) / 4;
      });
    return all;
  }
};

const Register<DiffusionLoss> registered;

}  // namespace
}  // namespace sluice
