// remove_small_objects: MONAI's RemoveSmallObjectsd.
#include <ATen/Functions.h>

#include "kernels/image/components.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct RemoveSmallObjects final : EachKey<RemoveSmallObjects> {
  struct Params : KeyParams {
    std::vector<std::string> keys{"pred"};
    double min_size = 64;
    std::int64_t connectivity = 1;
    bool independent_channels = true, by_measure = false;
    std::optional<std::vector<double>> pixdim;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("remove_small_objects", "Lets small connected components go.",
                                 "One-hot masks, each [C, X, Y, Z] or [C, X, Y].")
        .param("min_size", &Params::min_size, "Smaller ones go: voxels, or by_measure.")
        .at_least(0)
        .param("connectivity", &Params::connectivity,
               "1: neighbours share a face; 2: an edge; 3: a corner.")
        .range(1, 3)
        .param("independent_channels", &Params::independent_channels,
               "Each channel by itself; otherwise the components of all channels together.")
        .param("by_measure", &Params::by_measure,
               "min_size is a volume (of images of two axes an area), not voxels.")
        .param("pixdim", &Params::pixdim,
               "With by_measure: a voxel's size, one or one an axis; null: the affine's.")
        .takes("@keys", Form::image, 2, 3);
  }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const std::int64_t axes = field.tensor.dim() - 1;
    at::Tensor volume = to_volume(field.tensor).clone();
    const double least = least_voxels(field, axes);
    if (p.independent_channels) {
      for (std::int64_t c = 0; c < volume.size(0); ++c)
        volume[c].masked_fill_(small(at::ne(volume[c], 0), least, axes), 0);
    } else {
      const at::Tensor lost = small(at::gt(volume, 0).any(0), least, axes);
      volume.masked_fill_(lost.unsqueeze(0), 0);
    }
    field.tensor = from_volume(volume, axes);
  }

  double least_voxels(const Field& field, std::int64_t axes) const {
    if (!p.by_measure) return p.min_size;
    double measure = 1;
    for (std::int64_t d = 0; d < axes; ++d) {
      const Affine& m = field.geometry().affine;
      measure *= p.pixdim ? per_key(*p.pixdim, static_cast<std::size_t>(d))
                          : std::hypot(m[d], m[4 + d], m[8 + d]);
    }
    return std::ceil(p.min_size / (measure == 0 ? 1 : measure));
  }

  // Where components of less than `least` voxels are.
  at::Tensor small(const at::Tensor& mask, double least, std::int64_t axes) const {
    const at::Tensor set = mask.contiguous();
    const Components found = find_components(set, static_cast<int>(std::min(p.connectivity, axes)));
    const at::Tensor out = at::zeros_like(set);
    bool* to = out.mutable_data_ptr<bool>();
    for (const auto& run : found.runs)
      if (static_cast<double>(found.size[static_cast<std::size_t>(run.component)]) < least)
        std::fill(to + run.row * set.size(2) + run.begin, to + run.row * set.size(2) + run.end,
                  true);
    return out;
  }
};

const Register<RemoveSmallObjects> registered;

}  // namespace
}  // namespace sluice
