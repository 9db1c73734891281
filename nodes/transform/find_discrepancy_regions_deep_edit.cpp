// find_discrepancy_regions_deep_edit: MONAI's FindDiscrepancyRegionsDeepEditd.
#include "nodes/transform/deep_edit.h"
#include "nodes/transform/discrepancy.h"

namespace sluice {
namespace {

struct FindDiscrepancyRegionsDeepEdit final : Node {
  struct Params : DeepEditParams {
    std::string pred = "pred", discrepancy = "discrepancy";
  } p;

  static Spec spec() {
    Spec s("find_discrepancy_regions_deep_edit",
           "Where a prediction of several labels misses each of them or exceeds it.");
    return add_discrepancy<Params>(
        add_deep_edit_params<Params>(s), "The predicted labels, of the same shape.",
        "A new field, uint8 [labels, 2, 1, ...]: what is missed, and what is too much.");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& label = one_channel(out, p.label);
    set_discrepancy(out, p, label, [&](const at::Tensor& pred) {
      std::vector<at::Tensor> all;
      for (const std::int64_t number : p.labels)
        all.push_back(wrong_voxels(label.eq(number), pred.eq(number)));
      return at::stack(all);
    });
    f.emit(std::move(out));
  }
};

const Register<FindDiscrepancyRegionsDeepEdit> registered;

}  // namespace
}  // namespace sluice
