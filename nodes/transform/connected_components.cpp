// connected_components: skimage.measure.label, which MONAI's bundles call.
#include "kernels/image/components.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct ConnectedComponents final : EachKey<ConnectedComponents> {
  struct Params : KeyParams {
    std::optional<std::int64_t> connectivity;
    Params() { keys = {"label"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("connected_components",
                                 "Numbers the connected components of equal values from 1 by their "
                                 "first voxels; 0 is none (skimage.measure.label).",
                                 "Label maps, each [1, X, Y(, Z)].")
        .param("connectivity", &Params::connectivity,
               "Neighbours differ in at most so many coordinates; null: in all.")
        .range(1, 3)
        .takes("@keys", Form::image, 2, 3)
        .changes("@keys")
        .dtype("int32");
  }

  void change(Field& field, std::size_t i) const {
    const at::Tensor& map = field.tensor;
    if (map.size(0) != 1) throw shape_error(p.keys[i], map, " needs one channel");
    const std::int64_t axes = map.dim() - 1;
    const at::Tensor volume = axes == 2 ? map[0].unsqueeze(0) : map[0];
    field.tensor =
        numbered_components(volume, connectivity_of(p.connectivity, axes)).view(map.sizes());
  }
};

const Register<ConnectedComponents> registered;

}  // namespace
}  // namespace sluice
