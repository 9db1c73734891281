// find_discrepancy_regions: MONAI's FindDiscrepancyRegionsd of deepgrow.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct FindDiscrepancyRegions final : Node {
  struct Params {
    std::string label = "label", pred = "pred", discrepancy = "discrepancy";
  } p;

  static Spec spec() {
    return Spec("find_discrepancy_regions", "Where a prediction misses the label or exceeds it.")
        .in("sample")
        .out("sample")
        .param("label", &Params::label, "The object, above 0.5.")
        .param("pred", &Params::pred, "The prediction of the same shape, above 0.5.")
        .param("discrepancy", &Params::discrepancy,
               "A new field, uint8 [2, ...]: what is missed, and what is too much.")
        .takes("@label", Form::image, 2, 3)
        .takes("@pred", Form::image, 2, 3)
        .gives("@discrepancy", Form::any)
        .dtype("uint8");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor &label = out.tensor(p.label), &pred = out.tensor(p.pred);
    if (label.sizes() != pred.sizes())
      throw shape_error(p.label, label, ", \"" + p.pred + "\" " + list_text(pred.sizes()));
    const at::Tensor truth = label.gt(0.5), found = pred.gt(0.5);
    Field field = out.at(p.label);
    field.tensor = at::stack({truth.gt(found), found.gt(truth)}).to(at::kByte);
    out.set(p.discrepancy, std::move(field));
    f.emit(std::move(out));
  }
};

const Register<FindDiscrepancyRegions> registered;

}  // namespace
}  // namespace sluice
