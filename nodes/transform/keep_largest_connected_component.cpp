// keep_largest_connected_component: MONAI's KeepLargestConnectedComponentd.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "kernels/image/components.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct KeepLargestConnectedComponent final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::optional<std::vector<std::int64_t>> applied_labels;
    std::optional<bool> is_onehot;
    bool independent = true;
    std::optional<std::int64_t> connectivity;
    std::int64_t num_components = 1;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("keep_largest_connected_component",
                "Sets all but the largest connected components of each label to 0.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Label maps [1, X, Y(, Z)] or one-hot [C, X, Y(, Z)]; their type stays.")
        .param("applied_labels", &Params::applied_labels,
               "Labels (channels, where one-hot) to work on; null: all but 0.")
        .param("is_onehot", &Params::is_onehot, "null: one-hot where there are several channels.")
        .param("independent", &Params::independent,
               "Each label by itself; otherwise the labels' union.")
        .param("connectivity", &Params::connectivity,
               "Neighbours differ in at most so many coordinates; null: in all.")
        .range(1, 3)
        .param("num_components", &Params::num_components, "How many are kept.")
        .at_least(0)
        .param("allow_missing_keys", &Params::allow_missing_keys, "Leave out keys not there.")
        .takes("@keys", Form::image, 2, 3);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_volume(out, p.keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      field.tensor = from_volume(cleaned(volume, axes), axes);
                    });
    f.emit(std::move(out));
  }

  at::Tensor cleaned(const at::Tensor& volume, std::int64_t axes) const {
    const bool one_hot = p.is_onehot.value_or(volume.size(0) > 1);
    const auto labels = labels_in(volume, one_hot, p.applied_labels);
    const int connectivity = connectivity_of(p.connectivity, axes);
    at::Tensor out = volume.clone();
    const auto lost = [&](const at::Tensor& mask) {
      return at::ne(mask, largest_components(mask, connectivity, p.num_components));
    };
    if (p.independent) {
      for (const double label : labels)
        out[channel(one_hot, label)].masked_fill_(lost(mask_of(volume, one_hot, label)), 0);
      return out;
    }
    at::Tensor all;
    for (const double label : labels) {
      const at::Tensor mask = mask_of(volume, one_hot, label);
      all = all.defined() ? at::bitwise_or(all, mask) : mask;
    }
    if (!all.defined()) return out;
    const at::Tensor gone = lost(all);
    if (!one_hot) out[0].masked_fill_(gone, 0);
    for (const double label : labels)
      if (one_hot) out[channel(true, label)].masked_fill_(gone, 0);
    return out;
  }

  static std::int64_t channel(bool one_hot, double label) {
    return one_hot ? static_cast<std::int64_t>(label) : 0;
  }
};

const Register<KeepLargestConnectedComponent> registered;

}  // namespace
}  // namespace sluice
