// add_initial_seed_point_missing_labels: MONAI's AddInitialSeedPointMissingLabelsd of deepedit.
#include "kernels/image/components.h"
#include "nodes/transform/deep_edit.h"

namespace sluice {
namespace {

struct AddInitialSeedPointMissingLabels final : Node {
  struct Params : DeepEditParams {
    std::string guidance = "guidance", sids = "sids";
    std::int64_t connected_regions = 5;
  } p;

  static Spec spec() {
    Spec s("add_initial_seed_point_missing_labels",
           "Draws a slice for each label, and a first click in each region of the label in it.");
    return add_deep_edit_params<Params>(s)
        .param("guidance", &Params::guidance,
               "A new field: the clicks, int32 [labels, rows, 4]; a label that does not occur has "
               "rows of -1.")
        .param("sids", &Params::sids,
               "The slices of each label (find_all_valid_slices_missing_labels).")
        .param("connected_regions", &Params::connected_regions,
               "Regions of a slice that get a click, in memory order.")
        .at_least(1)
        .random()
        .takes("@label", Form::image, 3, 3)
        .takes("@sids", Form::any)
        .gives("@guidance", Form::any)
        .dtype("int32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& label = one_channel(out, p.label, 3);
    const at::Tensor& sids = out.tensor(p.sids);
    if (sids.dim() != 2 || sids.size(0) != std::ssize(p.labels))
      throw shape_error(p.sids, sids,
                        "; needed is [" + std::to_string(p.labels.size()) + ", slices]");
    Random random = f.random();
    std::vector<ClickRows> clicks;
    for (std::size_t k = 0; k < p.labels.size(); ++k)
      clicks.push_back(
          first_clicks(label, p.labels[k], sids[static_cast<std::int64_t>(k)], random));
    out.set(p.guidance, list_field(lists_of(clicks, 4), random.bits64()));
    f.emit(std::move(out));
  }

 private:
  ClickRows first_clicks(const at::Tensor& label, std::int64_t number, const at::Tensor& sids,
                         Random& random) const {
    const at::Tensor listed = sids.masked_select(sids.ge(0));
    if (listed.numel() == 0) return {};
    const auto drawn = random.integer(static_cast<std::uint64_t>(listed.numel()));
    const auto slice = listed[static_cast<std::int64_t>(drawn)].item<std::int64_t>();
    if (slice >= label.size(3))
      throw DataError("field \"" + p.sids + "\" lists slice " + std::to_string(slice) + ", but \"" +
                      p.label + "\" has " + std::to_string(label.size(3)));
    const at::Tensor mask = label.select(3, slice).eq(number);
    const std::vector<ClickSite> sites = sites_in(mask);
    const Components found = find_components(to_volume(mask)[0].contiguous(), 3);
    std::vector<std::vector<ClickSite>> regions(found.size.size());
    auto site = sites.begin();
    for (const Components::Run& r : found.runs) {
      auto& region = regions[static_cast<std::size_t>(r.component)];
      region.insert(region.end(), site, site + (r.end - r.begin));
      site += r.end - r.begin;
    }
    ClickRows rows;
    for (const auto& region : regions) {
      if (std::ssize(rows) == p.connected_regions) break;
      const ClickSite& c = drawn_click(region, random.uniform());
      rows.push_back({c.distance, static_cast<std::int32_t>(c.voxel[0]),
                      static_cast<std::int32_t>(c.voxel[1]), static_cast<std::int32_t>(slice)});
    }
    return rows;
  }
};

const Register<AddInitialSeedPointMissingLabels> registered;

}  // namespace
}  // namespace sluice
