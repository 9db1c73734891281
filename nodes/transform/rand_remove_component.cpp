// rand_remove_component: batchgeneratorsv2's
// RemoveRandomConnectedComponentFromOneHotEncodingTransform as nnU-Net sets it.
#include "kernels/image/components.h"
#include "nodes/transform/one_hot_draws.h"

namespace sluice {
namespace {

struct RandRemoveComponent final : Node {
  struct Params : OneHotDraws {
    double max_share = 0.15;
    Params() { prob = 0.2; }
  } p;

  static Spec spec() {
    return one_hot_spec("rand_remove_component",
                        "Takes a connected component from labels of a one-hot map, as nnU-Net does "
                        "with what "
                        "a cascade's first stage predicted.")
        .param("max_share", &Params::max_share,
               "Only of those that have less than this share of the patch's voxels.")
        .range(0, 1);
  }

  void process(Firing& f) override {
    process_one_hot(f, p, [&](at::Tensor& map, std::int64_t c, Random& random) {
      const at::Tensor mask = map[c];
      const Components all = find_components(mask, 3);
      std::vector<std::int32_t> small;
      for (std::size_t i = 0; i < all.size.size(); ++i)
        if (static_cast<double>(all.size[i]) < static_cast<double>(mask.numel()) * p.max_share)
          small.push_back(static_cast<std::int32_t>(i));
      if (small.empty()) return;
      const std::int32_t gone = small[random.integer(small.size())];
      auto* voxels = mask.mutable_data_ptr<std::uint8_t>();
      for (const auto& run : all.runs)
        if (run.component == gone)
          std::fill(voxels + run.row * mask.size(2) + run.begin,
                    voxels + run.row * mask.size(2) + run.end, std::uint8_t{0});
    });
  }
};

const Register<RandRemoveComponent> registered;

}  // namespace
}  // namespace sluice
