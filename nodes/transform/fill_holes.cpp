// fill_holes: MONAI's FillHolesd.
#include "nodes/transform/component_params.h"

namespace sluice {
namespace {

struct FillHoles final : EachVolume<FillHoles> {
  using Params = ComponentParams;
  Params p;

  static Spec spec() {
    Spec s("fill_holes", "Gives what a label encloses that label; smaller numbers go first.");
    add_applied_labels(s);
    add_connectivity(s, "A way out of a hole may change so many coordinates at once; null: all.");
    return add_missing_keys<Params>(s);
  }

  at::Tensor changed(const at::Tensor& volume, std::int64_t axes) const {
    const bool one_hot = volume.size(0) > 1;
    auto labels = labels_in(volume, one_hot, p.applied_labels);
    std::ranges::sort(labels, {}, [](const c10::Scalar& label) { return label.toDouble(); });
    at::Tensor filled = volume.clone();
    for (const c10::Scalar& label : labels) {
      if (label.equal(0)) continue;
      const at::Tensor mask = with_filled_holes(mask_of(filled, one_hot, label),
                                                connectivity_of(p.connectivity, axes), axes);
      if (one_hot)
        filled[label.toLong()].copy_(mask);
      else
        filled[0].masked_fill_(mask.to(at::kBool), label);
    }
    return filled;
  }
};

const Register<FillHoles> registered;

}  // namespace
}  // namespace sluice
