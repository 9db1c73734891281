// element_accuracy: ignite's Accuracy of masks, the share of equal elements.
#include <ATen/Functions.h>

#include "nodes/fields.h"
#include "nodes/metric/metric.h"

namespace sluice {
namespace {

struct ElementAccuracy final : RowMetric {
  struct Params : MetricParams {
    bool argmax = false;
  } p;

  static Spec spec() {
    Spec s("element_accuracy",
           "The share of the elements of an epoch in which prediction and label are the same "
           "(ignite's Accuracy). Metrics: mean.");
    return add_metric_params<Params>(s,
                                     "Prediction and label of one shape: masks, a channel a class.")
        .param("argmax", &Params::argmax,
               "The prediction is scores [N, C, ...] and the label classes [N, 1, ...], or [N] of "
               "scores [N, C]: of both, one mask a class is compared.")
        .reports({"mean"})
        .takes("@keys", Form::any, 0);
  }

 protected:
  void add(const Sample& sample) override {
    at::Tensor pred = sample.tensor(p.keys[0]).detach(), label = sample.tensor(p.keys[1]);
    double wrong = 0, all = static_cast<double>(pred.numel());
    if (p.argmax) {
      if (label.dim() == 1 && pred.dim() == 2) label = label.unsqueeze(1);
      if (pred.dim() < 2 || pred.dim() != label.dim() || label.size(1) != 1)
        throw unlike(pred, label);
      refuse_nan(pred, sample.name, p.keys[0]);
      // A wrong class is wrong in two masks: its own and the true one's.
      wrong = 2 * pred.argmax(1, true).ne(label.to(pred.device(), at::kLong)).sum().item<double>();
    } else {
      if (pred.sizes() != label.sizes()) throw unlike(pred, label);
      wrong = pred.ne(label.to(pred.device())).sum().item<double>();
    }
    append({all - wrong, all}, 2, 0, sample.name);
  }

  void report(Flush& end) const override {
    double right = 0, all = 0;
    for (std::int64_t i = 0; i < count(); ++i) {
      right += row(i)[0];
      all += row(i)[1];
    }
    end.metric("mean", ratio(right, all));
  }

  const MetricParams& common() const override { return p; }

 private:
  DataError unlike(const at::Tensor& pred, const at::Tensor& label) const {
    return DataError("\"" + p.keys[0] + "\" " + list_text(pred.sizes()) + " and \"" + p.keys[1] +
                     "\" " + list_text(label.sizes()) + " do not belong together");
  }
};

const Register<ElementAccuracy> registered;

}  // namespace
}  // namespace sluice
