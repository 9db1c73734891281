// rand_grid_patch: MONAI's RandGridPatchd.
#include "nodes/transform/grid_patches.h"

namespace sluice {
namespace {

struct RandGridPatch final : Node {
  struct Params : GridPatchParams {
    std::optional<std::vector<std::int64_t>> min_offset, max_offset;
    Params() {}  // of an aggregate with a base g++ 12 warns falsely
  } p;

  static Spec spec() {
    Spec s("rand_grid_patch", "Stacks the patches of a grid that begins at a random place.");
    return add_grid_patch_params<Params>(s, {"", "min", "max", "random"})
        .param(
            "min_offset", &Params::min_offset,
            "The first patch's first voxel is not before it; one number, or one an axis; null: 0.")
        .at_least(0)
        .length(1, 3)
        .param("max_offset", &Params::max_offset,
               "Nor after it; null: what a whole number of patches leaves of the image.")
        .at_least(0)
        .length(1, 3)
        .random();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Random random = f.random();
    // One place and one order for all keys, as MONAI's dictionary transform draws them.
    std::vector<std::int64_t> drawn;
    const std::uint64_t shuffle = random.bits64();
    split_into_patches(
        out, p,
        [&](const at::Tensor& image) {
          if (p.min_offset)
            require_one_an_axis(p.min_offset->size(), "min_offset", image.dim() - 1);
          if (p.max_offset)
            require_one_an_axis(p.max_offset->size(), "max_offset", image.dim() - 1);
          for (std::size_t d = drawn.size(); d < p.patch_size.size(); ++d) {
            const std::int64_t n = image.size(static_cast<std::int64_t>(d) + 1);
            const std::int64_t low = p.min_offset ? per_key(*p.min_offset, d) : 0,
                               high = p.max_offset ? per_key(*p.max_offset, d)
                                                   : rest(n, p.patch_size[d]);
            if (high < low)
              throw DataError("min_offset " + std::to_string(low) + " is above max_offset " +
                              std::to_string(high));
            drawn.push_back(low + static_cast<std::int64_t>(
                                      random.integer(static_cast<std::uint64_t>(high - low) + 1)));
          }
          return drawn;
        },
        [&](const at::Tensor& patches) {
          if (p.sort_fn != "random") return order_by_sum(patches, p.sort_fn);
          const auto n = static_cast<std::uint64_t>(patches.size(0));
          std::vector<std::int64_t> order;
          const Permutation permutation(n, shuffle);
          for (std::uint64_t i = 0; i < n; ++i)
            order.push_back(static_cast<std::int64_t>(permutation(i)));
          return order;
        });
    f.emit(std::move(out));
  }

 private:
  // What a whole number of patches leaves of an axis of n voxels. Of one that is shorter than a
  // patch: with padding all but the last voxel, at which a patch may begin; else nothing.
  std::int64_t rest(std::int64_t n, std::int64_t size) const {
    if (size == 0) return 0;
    if (size > n) return p.pad_mode.empty() ? 0 : n - 1;
    return n % size;
  }
};

const Register<RandGridPatch> registered;

}  // namespace
}  // namespace sluice
