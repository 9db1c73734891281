// find_discrepancy_regions_deep_edit: MONAI's FindDiscrepancyRegionsDeepEditd.
#include "nodes/transform/deep_edit.h"

namespace sluice {
namespace {

struct FindDiscrepancyRegionsDeepEdit final : Node {
  struct Params : DeepEditParams {
    std::string pred = "pred", discrepancy = "discrepancy";
  } p;

  static Spec spec() {
    Spec s("find_discrepancy_regions_deep_edit",
           "Where a prediction of several labels misses each of them or exceeds it.");
    return add_deep_edit_params<Params>(s)
        .param("pred", &Params::pred, "The predicted labels, of the same shape.")
        .param("discrepancy", &Params::discrepancy,
               "A new field, uint8 [labels, 2, 1, ...]: what is missed, and what is too much.")
        .takes("@label", Form::image, 2, 3)
        .takes("@pred", Form::image, 2, 3)
        .gives("@discrepancy", Form::any)
        .dtype("uint8");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor &label = one_channel(out, p.label), &pred = out.tensor(p.pred);
    if (label.sizes() != pred.sizes())
      throw shape_error(p.label, label, ", \"" + p.pred + "\" " + list_text(pred.sizes()));
    std::vector<at::Tensor> all;
    for (const std::int64_t number : p.labels) {
      const at::Tensor truth = label.eq(number), found = pred.eq(number);
      all.push_back(at::stack({truth.gt(found), found.gt(truth)}));
    }
    Field field = out.at(p.label);
    field.tensor = at::stack(all).to(at::kByte);
    out.set(p.discrepancy, std::move(field));
    f.emit(std::move(out));
  }
};

const Register<FindDiscrepancyRegionsDeepEdit> registered;

}  // namespace
}  // namespace sluice
