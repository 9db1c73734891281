// merge_channels: what bundles write as nested torch.where(x[[2]] > 0, 4, ...).
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct MergeChannels final : EachKey<MergeChannels> {
  struct Params : KeyParams {
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> labels;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("merge_channels",
                                 "Makes labels of channels: that of the first channel in order "
                                 "that is above 0, else 0.",
                                 "Masks [C, ...]; they become [1, ...] of int64.")
        .param("order", &Params::order, "Channels, the one that wins first.")
        .required()
        .at_least(0)
        .param("labels", &Params::labels, "Each one's label.")
        .required()
        .length_of("order")
        .any_device()
        .takes("@keys", Form::image)
        .changes("@keys")
        .channels("1")
        .dtype("int64");
  }

  void change(Field& field, std::size_t k) const {
    const at::Tensor& t = field.tensor;
    at::Tensor out = at::zeros(t.sizes(), t.options().dtype(at::kLong)).slice(0, 0, 1);
    for (std::size_t i = p.order.size(); i-- > 0;) {  // the first one last, over the others
      if (p.order[i] >= t.size(0))
        throw DataError("field \"" + p.keys[k] + "\" has " + std::to_string(t.size(0)) +
                        " channels; there is no channel " + std::to_string(p.order[i]));
      out = at::where(t.slice(0, p.order[i], p.order[i] + 1).gt(0), p.labels[i], out);
    }
    field.tensor = out.contiguous();
  }
};

const Register<MergeChannels> registered;

}  // namespace
}  // namespace sluice
