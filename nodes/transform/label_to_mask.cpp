// label_to_mask: MONAI's LabelToMaskd, with uint8 instead of bool.
#include <ATen/Functions.h>

#include "kernels/image/labels.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct LabelToMask final : EachKey<LabelToMask> {
  struct Params : KeyParams {
    std::vector<std::string> keys{"label"};
    std::vector<std::int64_t> select_labels;
    bool merge_channels = false;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("label_to_mask", "1 where a voxel has one of the labels, else 0.",
                                 "Labels [1, ...], or one-hot ones, whose channels are chosen.")
        .param("select_labels", &Params::select_labels, "The labels, or the channels.")
        .required()
        .length(1)
        .param("merge_channels", &Params::merge_channels,
               "One channel: 1 where any of the chosen ones is not 0.")
        .takes("@keys", Form::image)
        .changes("@keys");
  }

  void change(Field& field, std::size_t i) const {
    at::Tensor x = field.tensor;
    if (x.size(0) > 1) {
      for (const std::int64_t c : p.select_labels)
        if (c < 0 || c >= x.size(0))
          throw DataError("field \"" + p.keys[i] + "\" has " + std::to_string(x.size(0)) +
                          " channels; there is no channel " + std::to_string(c));
      x = x.index_select(0, at::tensor(p.select_labels, at::kLong));
    } else {
      const std::vector<double> labels(p.select_labels.begin(), p.select_labels.end());
      x = kernels::map_labels(x, labels, std::vector<double>(labels.size(), 1), at::kByte, 0);
    }
    field.tensor = p.merge_channels ? at::ne(x, 0).any(0, true).to(at::kByte) : x;
  }
};

const Register<LabelToMask> registered;

}  // namespace
}  // namespace sluice
