// cumulative_average: MONAI's CumulativeAverage and LossMetric, the mean of a number over an epoch.
#include "nodes/metric/number.h"

namespace sluice {
namespace {

struct CumulativeAverage final : NumberMetric<NumberParams> {
  static Spec spec() {
    Spec s("cumulative_average",
           "The mean of a number over an epoch's batches, of a loss for example; what is not "
           "finite does not count. Metrics: mean.");
    return add_number_params<Params>(s, "Field with one number.", Form::scalar);
  }
  double value(const at::Tensor& field) const override { return field.item<double>(); }
};

const Register<CumulativeAverage> registered;

}  // namespace
}  // namespace sluice
