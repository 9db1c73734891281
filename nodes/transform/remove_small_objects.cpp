// remove_small_objects: MONAI's RemoveSmallObjectsd. Objects of two channels are never one: in
// MONAI, which hands the channels to scikit-image as one more axis, they may be with
// connectivity 2.
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
               "Of a label map each label is one object; otherwise what is above 0 is taken for "
               "foreground.")
        .param("by_measure", &Params::by_measure,
               "min_size is a volume (of images of two axes an area), not voxels.")
        .param("pixdim", &Params::pixdim,
               "With by_measure: a voxel's size, one or one an axis; null: the affine's.")
        .takes("@keys", Form::image, 2, 3)
        .per_axis("@keys", "pixdim");
  }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const std::int64_t axes = field.tensor.dim() - 1;
    const double least = least_voxels(field, axes), largest = field.tensor.max().item<double>();
    if (field.tensor.min().item<double>() == largest) return;
    at::Tensor volume = to_volume(field.tensor).clone();
    if (p.independent_channels && largest > 1)
      remove_labels(volume, least);
    else
      for (std::int64_t c = 0; c < volume.size(0); ++c)
        volume[c].masked_fill_(small(at::gt(volume[c], 0), least, axes), 0);
    field.tensor = from_volume(volume, axes);
  }

  // Of a label map each label is one object, wherever its voxels are.
  static void remove_labels(at::Tensor& labels, double least) {
    const auto [values, places, counts] = at::_unique2(labels, true, false, true);
    for (std::int64_t i = 0; i < values.numel(); ++i)
      if (counts[i].item<double>() < least) labels.masked_fill_(at::eq(labels, values[i]), 0);
  }

  double least_voxels(const Field& field, std::int64_t axes) const {
    if (!p.by_measure) return p.min_size;
    double measure = 1;
    if (p.pixdim) {
      for (const double size : one_an_axis(*p.pixdim, axes, "pixdim")) measure *= size;
    } else {
      const Vec3 spacing = voxel_spacing(field.geometry().affine);
      for (std::int64_t d = 0; d < axes; ++d) measure *= spacing[static_cast<std::size_t>(d)];
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
