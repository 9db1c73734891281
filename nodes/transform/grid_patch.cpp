// grid_patch: MONAI's GridPatchd.
#include "nodes/transform/grid_patches.h"

namespace sluice {
namespace {

struct GridPatch final : Node {
  struct Params : GridPatchParams {
    std::vector<std::int64_t> offset{0, 0, 0};
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("grid_patch", "Stacks the patches of a grid, all or some of them.");
    return add_grid_patch_params<Params>(s, {"", "min", "max"})
        .param("offset", &Params::offset, "The first patch's first voxel, one number an axis.")
        .at_least(0)
        .length(2, 3);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    split_into_patches(
        out, p,
        [&](const at::Tensor& image) {
          if (std::ssize(p.offset) < image.dim() - 1)
            throw DataError("offset has " + std::to_string(p.offset.size()) +
                            " numbers for images " + list_text(image.sizes()));
          return p.offset;
        },
        [&](const at::Tensor& patches) { return order_by_sum(patches, p.sort_fn); });
    f.emit(std::move(out));
  }
};

const Register<GridPatch> registered;

}  // namespace
}  // namespace sluice
