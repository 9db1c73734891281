// invert: brings a prediction back to the grid of the image as it was loaded, through the history
// that the spatial transforms wrote (MONAI's Invertd for spatial transforms).
//
// All of them are affine, so going back is one resampling: the current affine and the one in front
// of the first transform say which voxel lies where. Flips and crops come back exactly, and what a
// crop took away is 0, as MONAI pads it.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "kernels/image/reach.h"
#include "kernels/image/resizing.h"
#include "nodes/turning_back.h"

namespace sluice {
namespace {

struct Invert final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::vector<std::string> mode{"nearest"};
    std::optional<std::string> resize_mode;
  } p;

  static Spec spec() {
    return Spec("invert", "Resamples fields to the grid of the image as it was loaded.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields [C, X, Y, Z], or with fewer axes, with the history of their image; they get "
               "the "
               "axes that it had.")
        .param("mode", &Params::mode, "nearest for labels, bilinear for logits; one, or one a key.")
        .choices({"nearest", "bilinear"})
        .per("keys")
        .param("resize_mode", &Params::resize_mode,
               "How a resize that came last is undone first, as resize would do it: MONAI takes "
               "the mode of that one. null: with all the rest, by mode.")
        .choices(resizing_names)
        .takes("@keys", Form::image)
        .resizes("@keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      while (p.resize_mode && resized_last(field)) field = resized_back(field);
      const Meta& meta = field.geometry();
      if (meta.history.empty()) return;
      const auto& old = meta.history.front();
      const std::vector<Grid> grids = grids_of(field);
      field = turned_back(field, old.affine_before, old.shape_before,
                          parse_interpolation(per_key(p.mode, i)));
      clear_what_was_cut(field.tensor, grids);
    });
    f.emit(std::move(out));
  }

 private:
  static Shape3 padded(at::IntArrayRef shape) {
    Shape3 out{1, 1, 1};
    std::copy_n(shape.begin(), std::min<std::size_t>(shape.size(), 3), out.begin());
    return out;
  }
  // Those that the field went through: the image's own first, its present one last.
  static std::vector<Grid> grids_of(const Field& field) {
    std::vector<Grid> grids;
    for (const Applied& a : field.geometry().history)
      grids.push_back({a.affine_before, padded(a.shape_before)});
    grids.push_back({field.geometry().affine, padded(field.tensor.sizes().slice(1))});
    return grids;
  }

  static void clear_what_was_cut(at::Tensor& t, const std::vector<Grid>& grids) {
    at::Tensor beyond;
    for (const Cut& cut : cuts_of(grids)) {
      at::Tensor place = at::full({1}, cut.row[3], at::kFloat);
      for (std::int64_t d = 1; d < t.dim(); ++d) {
        std::vector<std::int64_t> along(static_cast<std::size_t>(t.dim()) - 1, 1);
        along[static_cast<std::size_t>(d) - 1] = t.size(d);
        const double slope = cut.row[static_cast<std::size_t>(d) - 1];
        if (std::abs(slope) > 1e-6)
          place = place.add(at::arange(t.size(d), at::kFloat).mul_(slope).view(along));
      }
      const at::Tensor here = place.lt(-Cut::edge).logical_or(place.gt(cut.last + Cut::edge));
      beyond = beyond.defined() ? beyond.logical_or(here) : here;
    }
    if (beyond.defined()) t = t.masked_fill(beyond, 0);
  }
  static bool resized_last(const Field& field) {
    const auto& history = field.geometry().history;
    return !history.empty() && history.back().transform == "resize";
  }
  Field resized_back(const Field& field) const {
    auto before = std::make_shared<Meta>(field.geometry());
    const Applied last = before->history.back();
    before->history.pop_back();
    before->affine = last.affine_before;
    Shape3 size{1, 1, 1};
    std::copy(last.shape_before.begin(), last.shape_before.end(), size.begin());
    const bool align = last.values.size() > last.shape_before.size() && last.values.back() != 0;
    const at::Tensor volume =
        resize(to_volume(field.tensor).to(at::kFloat), size, parse_resizing(*p.resize_mode), align);
    return Field(from_volume(volume, field.tensor.dim() - 1), std::move(before));
  }
};

const Register<Invert> registered;

}  // namespace
}  // namespace sluice
