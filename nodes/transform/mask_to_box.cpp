// mask_to_box: MONAI's MaskToBoxd.
#include <ATen/Functions.h>

#include "engine/state/list_field.h"
#include "nodes/transform/boxes.h"

namespace sluice {
namespace {

struct MaskToBox final : Node {
  struct Params {
    std::vector<std::string> box_keys{"box"}, box_mask_keys{"box_mask"}, label_keys{"label"};
    std::int64_t min_fg_label = 0;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("mask_to_box", "The box around each channel of a mask, and its label.")
        .in("sample")
        .out("sample")
        .param("box_keys", &Params::box_keys,
               "Fields for the boxes, float32 [N, 4] or [N, 6] in the standard mode; a batch fills "
               "shorter lists up with rows of -1.")
        .param("box_mask_keys", &Params::box_mask_keys,
               "Masks [N, X, Y(, Z)] of box_to_mask; channels of background alone give no box.")
        .length_of("box_keys")
        .param("label_keys", &Params::label_keys, "Fields for the labels, int64 [N].")
        .length_of("box_keys")
        .param("min_fg_label", &Params::min_fg_label, "The least label, as for box_to_mask.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@box_mask_keys", Form::image, 2, 3)
        .gives("@box_keys", Form::any)
        .gives("@label_keys", Form::any);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (std::size_t i = 0; i < p.box_keys.size(); ++i) {
      if (p.allow_missing_keys && !out.has(p.box_mask_keys[i])) continue;
      const at::Tensor& masks = out.tensor(p.box_mask_keys[i]);
      require_spatial(masks, p.box_mask_keys[i]);
      std::vector<at::Tensor> boxes, labels;
      for (std::int64_t n = 0; n < masks.size(0); ++n) {
        const at::Tensor mask = masks[n], at = mask.ne(0).nonzero();
        if (at.size(0) == 0) continue;
        boxes.push_back(at::cat({at.amin(0), at.amax(0) + 1}));
        at::Tensor label = mask;
        for (std::int64_t d = 0; d < at.size(1); ++d) label = label[at[0][d].item<std::int64_t>()];
        labels.push_back(label.to(at::kLong) + (p.min_fg_label - 1));
      }
      const std::int64_t columns = 2 * (masks.dim() - 1);
      out.set(p.box_keys[i], list_field(boxes.empty() ? at::zeros({0, columns}, at::kFloat)
                                                      : at::stack(boxes).to(at::kFloat)));
      out.set(p.label_keys[i],
              list_field(labels.empty() ? at::zeros({0}, at::kLong) : at::stack(labels)));
    }
    f.emit(std::move(out));
  }
};

const Register<MaskToBox> registered;

}  // namespace
}  // namespace sluice
