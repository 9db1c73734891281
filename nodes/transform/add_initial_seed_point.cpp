// add_initial_seed_point: MONAI's AddInitialSeedPointd of deepgrow.
#include <ATen/Functions.h>

#include <algorithm>

#include "engine/run/registry.h"
#include "kernels/image/clicks.h"
#include "kernels/image/components.h"
#include "kernels/image/spatial.h"
#include "nodes/transform/one_channel.h"

namespace sluice {
namespace {

struct AddInitialSeedPoint final : Node {
  struct Params {
    std::string label = "label", guidance = "guidance", sids = "sids", sid = "sid";
    std::int64_t connected_regions = 5;
  } p;

  static Spec spec() {
    return Spec("add_initial_seed_point",
                "Draws a first click in each connected region of a label, its middle first.")
        .in("sample")
        .out("sample")
        .param("label", &Params::label, "The object, [1, X, Y] or [1, X, Y, Z], above 0.5.")
        .param(
            "guidance", &Params::guidance,
            "A new field: clicks on the object, and on what is not, int32 [2, rows, 1 + axes]; a "
            "row is the click's distance from the border, then its voxel, or -1s: no click.")
        .param("sids", &Params::sids,
               "Slices (find_all_valid_slices) of which one is drawn; a volume without this field "
               "is one region as a whole.")
        .param("sid", &Params::sid, "A field with the slice to take, where it is among those.")
        .param("connected_regions", &Params::connected_regions,
               "Regions of a plane that get a click, in memory order; missing ones: no click.")
        .at_least(1)
        .random()
        .takes("@label", Form::image, 2, 3)
        .gives("@guidance", Form::any)
        .dtype("int32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& label = one_channel(out, p.label);
    Random random = f.random();
    const auto axes = static_cast<std::size_t>(label.dim() - 1);
    const std::optional<std::int64_t> slice =
        axes == 3 ? drawn_slice(out, label, random) : std::nullopt;
    const at::Tensor plane = (slice ? label.select(1, *slice) : label).gt(0.5);
    const at::Tensor mask = to_volume(plane)[0].contiguous();
    const std::vector<ClickSite> sites = click_sites(mask);
    if (sites.empty())
      throw DataError("the label \"" + p.label + "\" has no voxel above 0.5" +
                      (slice ? " in slice " + std::to_string(*slice) : "") + " to click on");
    std::vector<std::vector<std::int32_t>> rows;
    if (axes == 3 && !slice) {
      rows.push_back(row(drawn_click(sites, random.uniform()), axes, slice));
    } else {
      for (const auto& region : regions(sites, mask))
        rows.push_back(row(drawn_click(region, random.uniform()), axes, slice));
      rows.resize(static_cast<std::size_t>(p.connected_regions),
                  std::vector<std::int32_t>(axes + 1, -1));
    }
    at::Tensor guidance =
        at::full({2, std::ssize(rows), static_cast<std::int64_t>(axes + 1)}, -1, at::kInt);
    auto* to = guidance.mutable_data_ptr<std::int32_t>();
    for (const auto& one : rows) to = std::copy(one.begin(), one.end(), to);
    out.set(p.guidance, list_field(std::move(guidance), random.bits64()));
    f.emit(std::move(out));
  }

 private:
  std::optional<std::int64_t> drawn_slice(const Sample& in, const at::Tensor& label,
                                          Random& random) const {
    const Field* list = in.find(p.sids);
    if (!list) return std::nullopt;
    const at::Tensor sids = list->tensor.to(at::kLong).flatten().contiguous();
    const auto* first = sids.const_data_ptr<std::int64_t>();
    const auto* last = std::find(first, first + sids.numel(), -1);
    if (first == last) throw DataError("field \"" + p.sids + "\" lists no slice");
    if (*std::max_element(first, last) >= label.size(1) || *std::min_element(first, last) < 0)
      throw DataError("field \"" + p.sids + "\" lists slices that \"" + p.label + "\" of shape " +
                      list_text(label.sizes()) + " does not have");
    if (const Field* sid = in.find(p.sid)) {
      const auto wanted = sid->tensor.item<std::int64_t>();
      if (std::find(first, last, wanted) != last) return wanted;
    }
    return first[random.integer(static_cast<std::uint64_t>(last - first))];
  }

  // The sites of the first regions. What is nearest to a voxel outside of its region is outside of
  // all, so distances in the whole mask are those in the region.
  std::vector<std::vector<ClickSite>> regions(const std::vector<ClickSite>& sites,
                                              const at::Tensor& mask) const {
    const Components found = find_components(mask, 3);
    std::vector<std::vector<ClickSite>> all(
        std::min(found.size.size(), static_cast<std::size_t>(p.connected_regions)));
    auto site = sites.begin();
    for (const Components::Run& r : found.runs) {
      const auto end = site + (r.end - r.begin);
      if (const auto k = static_cast<std::size_t>(r.component); k < all.size())
        all[k].insert(all[k].end(), site, end);
      site = end;
    }
    return all;
  }

  static std::vector<std::int32_t> row(const ClickSite& site, std::size_t axes,
                                       std::optional<std::int64_t> slice) {
    std::vector<std::int32_t> out{site.distance};
    if (slice) out.push_back(static_cast<std::int32_t>(*slice));
    for (std::size_t d = 0; out.size() < axes + 1; ++d)
      out.push_back(static_cast<std::int32_t>(site.voxel[d]));
    return out;
  }
};

const Register<AddInitialSeedPoint> registered;

}  // namespace
}  // namespace sluice
