// Which voxels belong to each class of a label: what classes_to_indices and
// rand_crop_by_label_classes share.
#pragma once

#include <ATen/Functions.h>

#include "kernels/image/foreground.h"
#include "nodes/transform/transform.h"

namespace sluice {

struct NoParams {};
template <class Base>
struct ClassRule : Base {
  std::optional<std::int64_t> num_classes;
  std::optional<std::string> image_key;
  double image_threshold = 0;
  std::optional<std::int64_t> max_samples_per_class;
};

template <class P>
Spec& add_class_rule(Spec& s) {
  return s
      .param("num_classes", &P::num_classes,
             "Classes of a label of one channel; a one-hot label has a channel for each.")
      .at_least(1)
      .param("image_key", &P::image_key,
             "If set, only voxels count where this field is above image_threshold in a channel.")
      .param("image_threshold", &P::image_threshold, "In the image's units.")
      .param("max_samples_per_class", &P::max_samples_per_class,
             "The most voxels of a class that count, evenly spaced among all of them.")
      .at_least(1)
      .takes("@image_key", Form::image, 2, 3);
}

// The bits of VoxelBits for each class, int32 [classes, n], on the host.
template <class Base>
at::Tensor class_bits(const Sample& sample, const std::string& key, const ClassRule<Base>& rule) {
  const at::Tensor label = to_volume(sample.tensor(key));
  const bool one_hot = label.size(0) > 1;
  if (!one_hot && !rule.num_classes)
    throw DataError("\"" + key + "\" has one channel: num_classes says how many classes it has");
  at::Tensor allowed;
  if (rule.image_key) {
    const at::Tensor image = volume_like(sample, *rule.image_key, shape_of(label), key);
    allowed = at::gt(image, rule.image_threshold).any(0);
  }
  std::vector<at::Tensor> bits;
  for (std::int64_t c = 0; c < (one_hot ? label.size(0) : *rule.num_classes); ++c) {
    at::Tensor mask = one_hot ? at::ne(label[c], 0) : at::eq(label[0], c);
    if (allowed.defined()) mask = at::logical_and(mask, allowed);
    if (const auto most = rule.max_samples_per_class) {
      const at::Tensor found = at::nonzero(mask.flatten()).flatten();
      const std::int64_t n = found.numel();
      if (n > *most) {
        const at::Tensor places =
            at::linspace(0, static_cast<double>(n - 1), *most, found.options().dtype(at::kDouble));
        mask = at::zeros_like(mask).flatten().index_fill_(
            0, found.index_select(0, places.round().to(at::kLong)), 1);
        mask = mask.view(label[0].sizes());
      }
    }
    bits.push_back(mask_bits(mask));
  }
  return at::stack(bits);
}

}  // namespace sluice
