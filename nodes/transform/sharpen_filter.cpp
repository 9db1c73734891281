// sharpen_filter: MONAI's SharpenFilter.
#include "nodes/transform/kernel_filter.h"

namespace sluice {
namespace {

struct SharpenFilter final : KernelFilter<sharpen_kernel> {
  static Spec spec() {
    return kernel_filter_spec("sharpen_filter",
                              "The voxel and its differences from those within half of the size.");
  }
};

const Register<SharpenFilter> registered;

}  // namespace
}  // namespace sluice
