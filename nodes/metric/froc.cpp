// froc: MONAI's free-response receiver operating characteristic of detected points.
#include "nodes/metric/froc.h"

namespace sluice {
namespace {

struct Froc final : FrocMetric {
  using Params = FrocParams;
  Params p;

  static Spec spec() {
    Spec s("froc",
           "The mean sensitivity of detected points at given numbers of false positives an image, "
           "over an epoch's images. Metrics: mean.");
    return add_froc_params<Params>(
               s,
               "Probabilities [points], and the targets' label map: 0 is none, 1, 2, ... one each.")
        .takes("@keys", Form::any, 0);
  }

 private:
  const FrocParams& params() const override { return p; }

  void add(const Sample& sample) override {
    const at::Tensor probs = sample.tensor(p.keys[0]).detach().to(at::kCPU, at::kDouble).flatten();
    const at::Tensor coords = sample.tensor(p.coords_key).to(at::kCPU, at::kLong);
    at::Tensor mask = sample.tensor(p.keys[1]).to(at::kCPU, at::kLong);
    if (coords.dim() == 2 && mask.dim() == coords.size(1) + 1 && mask.size(0) == 1) mask = mask[0];
    add_points(sample.name, probs, coords, mask);
  }
};

const Register<Froc> registered;

}  // namespace
}  // namespace sluice
