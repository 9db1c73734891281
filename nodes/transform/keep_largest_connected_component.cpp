// keep_largest_connected_component: MONAI's KeepLargestConnectedComponentd.
#include <ATen/Functions.h>

#include "nodes/transform/component_params.h"

namespace sluice {
namespace {

struct KeepLargestConnectedComponent final : EachVolume<KeepLargestConnectedComponent> {
  struct Params : ComponentParams {
    std::optional<bool> is_onehot;
    bool independent = true;
    std::int64_t num_components = 1;
  } p;

  static Spec spec() {
    Spec s("keep_largest_connected_component",
           "Sets all but the largest connected components of each label to 0.");
    add_applied_labels(s)
        .param("is_onehot", &Params::is_onehot, "null: one-hot where there are several channels.")
        .param("independent", &Params::independent,
               "Each label by itself; otherwise the labels' union.");
    add_connectivity(s, "Neighbours differ in at most so many coordinates; null: in all.")
        .param("num_components", &Params::num_components, "How many are kept.")
        .at_least(0);
    return add_missing_keys<Params>(s);
  }

  at::Tensor changed(const at::Tensor& volume, std::int64_t axes) const {
    const bool one_hot = p.is_onehot.value_or(volume.size(0) > 1);
    if (!one_hot && volume.size(0) != 1)
      throw DataError("a label map has one channel, not " + std::to_string(volume.size(0)) +
                      "; see is_onehot");
    const auto labels = labels_in(volume, one_hot, p.applied_labels);
    const int connectivity = connectivity_of(p.connectivity, axes);
    at::Tensor out = volume.clone();
    const auto lost = [&](const at::Tensor& mask) {
      return at::ne(mask, largest_components(mask, connectivity, p.num_components));
    };
    if (p.independent) {
      for (const c10::Scalar& label : labels) {
        const at::Tensor gone = lost(mask_of(volume, one_hot, label));
        out[channel(one_hot, label)].masked_fill_(gone, 0);
      }
      return out;
    }
    at::Tensor all;
    for (const c10::Scalar& label : labels) {
      const at::Tensor mask = mask_of(volume, one_hot, label);
      all = all.defined() ? at::bitwise_or(all, mask) : mask;
    }
    if (!all.defined()) return out;
    const at::Tensor gone = lost(all);
    if (!one_hot) out[0].masked_fill_(gone, 0);
    for (const c10::Scalar& label : labels)
      if (one_hot) out[channel(true, label)].masked_fill_(gone, 0);
    return out;
  }

  static std::int64_t channel(bool one_hot, const c10::Scalar& label) {
    return one_hot ? label.toLong() : 0;
  }
};

const Register<KeepLargestConnectedComponent> registered;

}  // namespace
}  // namespace sluice
