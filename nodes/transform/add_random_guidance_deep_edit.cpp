// add_random_guidance_deep_edit: MONAI's AddRandomGuidanceDeepEditd.
#include "nodes/transform/deep_edit.h"
#include "nodes/transform/discrepancy.h"

namespace sluice {
namespace {

struct AddRandomGuidanceDeepEdit final : Node {
  struct Params : DeepEditParams {
    std::string guidance = "guidance", discrepancy = "discrepancy", probability = "probability";
  } p;

  static Spec spec() {
    Spec s("add_random_guidance_deep_edit",
           "Draws clicks where a prediction of several labels is wrong: one in what is missed of "
           "each, and one on each label that another covers by more than 50 voxels. Then a number "
           "from 1 to 10 is drawn, and labels in a drawn order keep their clicks until there are "
           "so many; those of the others are dropped.");
    add_deep_edit_params<Params>(s)
        .param("guidance", &Params::guidance, "The clicks so far, int32 [labels, rows, 1 + axes].")
        .param("discrepancy", &Params::discrepancy,
               "Where the prediction is wrong (find_discrepancy_regions_deep_edit).")
        .param("probability", &Params::probability,
               "A field with one number: how likely clicks are; 1 inside interact.")
        .takes("@label", Form::image, 2, 3);
    return add_drawn_click(s);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field guidance = out.at(p.guidance);
    const at::Tensor &label = one_channel(out, p.label), &wrong = out.tensor(p.discrepancy);
    const auto n = std::ssize(p.labels);
    if (guidance.tensor.dim() != 3 || guidance.tensor.size(0) != n ||
        guidance.tensor.size(2) != label.dim() || wrong.dim() != label.dim() + 2 ||
        wrong.size(0) != n)
      throw shape_error(p.discrepancy, wrong,
                        " and \"" + p.guidance + "\" " + list_text(guidance.tensor.sizes()) +
                            "; needed are [" + std::to_string(n) + ", 2, 1, X, Y(, Z)] and [" +
                            std::to_string(n) + ", rows, 1 + axes]");
    Random random = f.random();
    if (random.chance(out.tensor(p.probability).item<double>())) {
      std::vector<ClickRows> lists = so_far(guidance.tensor);
      for (std::size_t k = 0; k < lists.size(); ++k) click(lists, k, label, wrong, random);
      keep_some(lists, random);
      guidance.tensor = lists_of(lists, label.dim());
    }
    out.set(p.guidance, std::move(guidance));
    f.emit(std::move(out));
  }

 private:
  static std::vector<ClickRows> so_far(const at::Tensor& guidance) {
    std::vector<ClickRows> lists(static_cast<std::size_t>(guidance.size(0)));
    const at::Tensor rows = guidance.to(at::kInt).contiguous();
    const auto* at = rows.const_data_ptr<std::int32_t>();
    for (ClickRows& list : lists)
      for (std::int64_t i = 0; i < rows.size(1); ++i, at += rows.size(2))
        if (std::find(at, at + rows.size(2), -1) == at + rows.size(2))
          list.emplace_back(at, at + rows.size(2));
    return lists;
  }

  void click(std::vector<ClickRows>& lists, std::size_t k, const at::Tensor& label,
             const at::Tensor& wrong, Random& random) const {
    const at::Tensor both = wrong[static_cast<std::int64_t>(k)].gt(0);
    draw(lists[k], both[0], 0, random);
    for (std::size_t other = 0; other < lists.size(); ++other)
      draw(lists[other], both[1].logical_and(label.eq(p.labels[other])), 50, random);
  }

  // A click in the mask where it has more voxels than that.
  static void draw(ClickRows& list, const at::Tensor& mask, std::int64_t more_than,
                   Random& random) {
    const std::vector<ClickSite> sites = sites_in(mask);
    if (std::ssize(sites) <= more_than) return;
    const ClickSite& c = drawn_click(sites, random.uniform());
    list.push_back({c.distance});
    for (std::int64_t d = 0; d < mask.dim() - 1; ++d)
      list.back().push_back(static_cast<std::int32_t>(c.voxel[static_cast<std::size_t>(d)]));
  }

  static void keep_some(std::vector<ClickRows>& lists, Random& random) {
    const std::size_t wanted = 1 + random.integer(10);
    std::vector<std::size_t> order(lists.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::swap(order[i], order[i + random.integer(order.size() - i)]);
      if (kept >= wanted)
        lists[order[i]].clear();
      else
        kept += lists[order[i]].size();
    }
  }
};

const Register<AddRandomGuidanceDeepEdit> registered;

}  // namespace
}  // namespace sluice
