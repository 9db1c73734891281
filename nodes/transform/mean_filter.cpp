// mean_filter: MONAI's MeanFilter.
#include "nodes/transform/kernel_filter.h"

namespace sluice {
namespace {

struct MeanFilter final : KernelFilter<mean_kernel> {
  static Spec spec() {
    return kernel_filter_spec("mean_filter",
                              "The sum of the voxels of a window; not divided by their number.");
  }
};

const Register<MeanFilter> registered;

}  // namespace
}  // namespace sluice
