// elliptical_filter: MONAI's EllipticalFilter.
#include "nodes/transform/kernel_filter.h"

namespace sluice {
namespace {

struct EllipticalFilter final : KernelFilter<elliptical_kernel> {
  static Spec spec() {
    return kernel_filter_spec("elliptical_filter",
                              "The sum of the voxels within half of the size: it grows labels.");
  }
};

const Register<EllipticalFilter> registered;

}  // namespace
}  // namespace sluice
