// add_random_guidance: MONAI's AddRandomGuidanced of deepgrow.
#include "kernels/image/clicks.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/discrepancy.h"

namespace sluice {
namespace {

struct AddRandomGuidance final : Node {
  struct Params {
    std::string guidance = "guidance", discrepancy = "discrepancy", probability = "probability";
  } p;

  static Spec spec() {
    Spec s("add_random_guidance",
           "Draws a click where a prediction is wrong: in what is missed, or in what is too "
           "much where that is more.");
    s.in("sample")
        .out("sample")
        .param("guidance", &Params::guidance,
               "The clicks so far, int32 [2, rows, 1 + axes]; they become a row more.")
        .param("discrepancy", &Params::discrepancy,
               "Where the prediction is wrong, [2, 1, X, Y] or [2, 1, X, Y, Z] "
               "(find_discrepancy_regions).")
        .param("probability", &Params::probability,
               "A field with one number: how likely a click is. Inside interact it is 1, since "
               "only samples that get a click come here.");
    return add_drawn_click(s);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field guidance = out.at(p.guidance);
    const at::Tensor& wrong = out.tensor(p.discrepancy);
    const auto axes = guidance.tensor.size(-1) - 1;
    if (guidance.tensor.dim() != 3 || wrong.dim() != axes + 2 || wrong.size(0) != 2 ||
        wrong.size(1) != 1)
      throw shape_error(p.discrepancy, wrong,
                        " and \"" + p.guidance + "\" " + list_text(guidance.tensor.sizes()) +
                            "; needed are [2, 1, X, Y(, Z)] and [2, rows, 1 + axes]");
    Random random = f.random();
    if (random.chance(out.tensor(p.probability).item<double>())) click(guidance, wrong, random);
    out.set(p.guidance, std::move(guidance));
    f.emit(std::move(out));
  }

 private:
  // What is missed, unless what is too much is more.
  void click(Field& guidance, const at::Tensor& wrong, Random& random) const {
    const at::Tensor set = wrong.gt(0);
    const auto missed = set[0].sum().item<std::int64_t>(),
               excess = set[1].sum().item<std::int64_t>();
    const std::int64_t kind = missed >= excess ? 0 : 1;
    const std::vector<ClickSite> sites = click_sites(to_volume(set[kind])[0].contiguous());
    if (sites.empty()) return;
    const ClickSite& drawn = drawn_click(sites, random.uniform());
    at::Tensor row = at::full({2, 1, guidance.tensor.size(2)}, -1, at::kInt);
    auto* to = row.mutable_data_ptr<std::int32_t>() + kind * row.size(2);
    *to++ = drawn.distance;
    for (std::int64_t d = 1; d < row.size(2); ++d)
      *to++ = static_cast<std::int32_t>(drawn.voxel[static_cast<std::size_t>(d - 1)]);
    guidance.tensor = at::cat({guidance.tensor.to(at::kInt), row}, 1);
  }
};

const Register<AddRandomGuidance> registered;

}  // namespace
}  // namespace sluice
