// find_all_valid_slices_missing_labels: MONAI's FindAllValidSlicesMissingLabelsd of deepedit.
#include "nodes/transform/deep_edit.h"

namespace sluice {
namespace {

struct FindAllValidSlicesMissingLabels final : Node {
  struct Params : DeepEditParams {
    std::string sids = "sids";
  } p;

  static Spec spec() {
    Spec s("find_all_valid_slices_missing_labels", "Lists the slices in which each label occurs.");
    return add_deep_edit_params<Params>(s)
        .param("sids", &Params::sids,
               "A new field: the places along the last axis, int32 [labels, slices]; a label that "
               "is in fewer, or in none, has -1s.")
        .takes("@label", Form::image, 3, 3)
        .gives("@sids", Form::any)
        .dtype("int32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& label = one_channel(out, p.label, 3);
    std::vector<ClickRows> slices;
    for (const std::int64_t number : p.labels) {
      const at::Tensor used = label[0].eq(number).any(0).any(0).nonzero().flatten();
      slices.emplace_back();
      for (std::int64_t i = 0; i < used.size(0); ++i)
        slices.back().push_back({used[i].item<std::int32_t>()});
    }
    out.set(p.sids, list_field(lists_of(slices, 1).squeeze(2)));
    f.emit(std::move(out));
  }
};

const Register<FindAllValidSlicesMissingLabels> registered;

}  // namespace
}  // namespace sluice
