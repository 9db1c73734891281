// find_discrepancy_regions: MONAI's FindDiscrepancyRegionsd of deepgrow.
#include "nodes/transform/discrepancy.h"

namespace sluice {
namespace {

struct FindDiscrepancyRegions final : Node {
  struct Params {
    std::string label = "label", pred = "pred", discrepancy = "discrepancy";
  } p;

  static Spec spec() {
    Spec s("find_discrepancy_regions", "Where a prediction misses the label or exceeds it.");
    s.in("sample").out("sample").param("label", &Params::label, "The object, above 0.5.");
    return add_discrepancy<Params>(
        s, "The prediction of the same shape, above 0.5.",
        "A new field, uint8 [2, ...]: what is missed, and what is too much.");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& label = out.tensor(p.label);
    set_discrepancy(out, p, label, [&](const at::Tensor& pred) {
      return wrong_voxels(label.gt(0.5), pred.gt(0.5));
    });
    f.emit(std::move(out));
  }
};

const Register<FindDiscrepancyRegions> registered;

}  // namespace
}  // namespace sluice
