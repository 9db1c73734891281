// laplace_filter: MONAI's LaplaceFilter.
#include "nodes/transform/kernel_filter.h"

namespace sluice {
namespace {

struct LaplaceFilter final : KernelFilter<laplace_kernel> {
  static Spec spec() {
    return kernel_filter_spec(
        "laplace_filter",
        "The voxel times the window's number of voxels, less their sum: outlines.");
  }
};

const Register<LaplaceFilter> registered;

}  // namespace
}  // namespace sluice
