// resample_argmax: a prediction's logits become labels on the grid of the image's file, as nnU-Net
// exports them, and full-size logits never exist.
//
//   file ─ moves ─▶ crop ─ resampled ─▶ network's grid     the history of the field
//   labels ◀─ moves back ─ classes ◀─ logits
#include <ATen/Functions.h>

#include <cmath>

#include "engine/run/registry.h"
#include "kernels/image/resampled_classes.h"
#include "kernels/image/spatial.h"
#include "kernels/image/spline_resize.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct ResampleArgmax final : Node {
  struct Params {
    std::vector<std::string> keys{"pred"};
    std::vector<std::int64_t> regions_class_order;
    std::string separate_z = "auto", logits = "float32", output = "labels";
  } p;

  static Spec spec() {
    return Spec("resample_argmax",
                "Labels on the grid of the image as it was loaded, of logits on the network's: "
                "these are resampled linearly, row by row, the largest wins, and what crops took "
                "away is 0. As nnU-Net exports; memory beside the logits is a label a voxel.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Logits [C, X, Y, Z] with the history of their image: moves (crop_nonzero, "
               "crop_foreground, flip, orientation, transpose with \"geometry\") and, last, at "
               "most one of resample_spline, resize without align_corners, or spacing.")
        .param("regions_class_order", &Params::regions_class_order,
               "The logits are those of regions: a voxel where one is above 0 gets the region's "
               "label, the later one over the earlier. Empty: of classes, of which the largest "
               "wins.")
        .at_least(0)
        .param("separate_z", &Params::separate_z,
               "auto: thick slices are resampled one by one, and across them the nearest counts "
               "(nnU-Net's rule, spacing over 3 times another axis'); never.")
        .choices({"auto", "never"})
        .param("logits", &Params::logits,
               "float16: what is resampled is rounded so, for the labels that nnU-Net gives.")
        .choices({"float32", "float16"})
        .param(
            "output", &Params::output,
            "probabilities: float32 [C, ...] instead, softmax over the classes or each region's "
            "sigmoid, of which mean_ensemble makes the mean of several networks; what crops took "
            "away is background.")
        .choices({"labels", "probabilities"})
        .takes("@keys", Form::image, 2, 3)
        .resizes("@keys")
        .changes("@keys")
        .channels("1")
        .dtype("uint8")
        .unless("output", "probabilities")
        .changes("@keys")
        .dtype("float32")
        .when("output", "probabilities");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, false, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      if (!p.regions_class_order.empty() &&
          field.tensor.size(0) != std::ssize(p.regions_class_order))
        throw DataError("field \"" + p.keys[i] + "\" has " + std::to_string(field.tensor.size(0)) +
                        " channels, regions_class_order " +
                        std::to_string(p.regions_class_order.size()) + " labels");
      const auto axes = field.tensor.dim() - 1;
      const Meta& meta = field.geometry();
      const at::Tensor found = on_first_grid(on_last_grid(field, p.keys[i]), meta);
      auto back = std::make_shared<Meta>(meta);
      if (!meta.history.empty()) back->affine = meta.history.front().affine_before;
      back->history.clear();
      field = Field(from_volume(found, axes), std::move(back));
    });
    f.emit(std::move(out));
  }

 private:
  struct Grid {
    Affine affine;
    Shape3 shape;
  };

  static Shape3 shape_before(const Applied& step) {
    Shape3 shape{1, 1, 1};
    for (std::size_t d = 0; d < step.shape_before.size() && d < 3; ++d)
      shape[d] = step.shape_before[d];
    return shape;
  }

  // Voxels keep their values: an axis for an axis, by whole voxels.
  static bool is_move(const Affine& m) {
    for (int row = 0; row < 3; ++row) {
      int ones = 0;
      for (int column = 0; column < 4; ++column) {
        const double v = m[4 * row + column], whole = std::round(v);
        if (std::abs(v - whole) > 1e-3 || (column < 3 && std::abs(whole) > 1)) return false;
        ones += column < 3 && whole != 0;
      }
      if (ones != 1) return false;
    }
    return true;
  }

  bool probabilities() const { return p.output == "probabilities"; }

  // Labels, or probabilities, on the grid that was resampled last, or on the present one.
  std::pair<at::Tensor, Grid> on_last_grid(const Field& field, const std::string& key) const {
    const Meta& meta = field.geometry();
    const at::Tensor logits = to_volume(field.tensor);
    Grid grid{meta.affine, shape_of(logits)};
    AxisPlaces places[3];
    for (int d = 0; d < 3; ++d) places[d] = AxisPlaces::stretched(grid.shape[d], grid.shape[d]);
    for (std::size_t i = meta.history.size(); i-- > 0;) {
      const Applied& step = meta.history[i];
      const Affine after =
          i + 1 < meta.history.size() ? meta.history[i + 1].affine_before : meta.affine;
      if (is_move(solve(after, step.affine_before))) continue;
      if (i + 1 < meta.history.size())
        throw DataError("field \"" + key + "\" went through " + meta.history[i + 1].transform +
                        " after " + step.transform +
                        "; resample_argmax goes back through a resampling that was the last");
      grid = {step.affine_before, shape_before(step)};
      const bool told = step.transform == "resample_spline" && step.values.size() >= 3;
      const Vec3 spacing =
          told ? Vec3{step.values[0], step.values[1], step.values[2]} : voxel_spacing(meta.affine);
      stretch(places, shape_of(logits), meta.affine, grid, spacing, field.tensor.dim() - 1);
    }
    const bool half = p.logits == "float16", regions = !p.regions_class_order.empty();
    return {probabilities() ? resampled_probabilities(logits, places, regions, half)
                            : resampled_classes(logits, places, p.regions_class_order, half),
            grid};
  }

  // Where the voxels of `to` lie on the logits' grid: end on end, as nnU-Net and resize have it, or
  // as the affines say, of which spacing keeps the first voxel's place.
  void stretch(AxisPlaces (&places)[3], const Shape3& from, const Affine& affine, const Grid& to,
               const Vec3& spacing, std::int64_t axes) const {
    int slices = -1;
    if (p.separate_z == "auto")
      slices =
          slice_axis(spacing, voxel_spacing(to.affine), static_cast<int>(axes)).value_or(slices);
    const Affine place = solve(affine, to.affine);
    for (int d = 0; d < 3; ++d) {
      for (int other = 0; other < 3; ++other)
        if (other != d &&
            std::abs(place[4 * d + other]) * static_cast<double>(to.shape[other]) > 0.01)
          throw DataError("was resampled to other axes; resample_argmax goes back along each");
      const double scale = place[5 * d], offset = place[4 * d + 3];
      const double even = static_cast<double>(from[d]) / static_cast<double>(to.shape[d]);
      const bool end_on_end = std::abs(scale - even) * static_cast<double>(to.shape[d]) < 1e-3 &&
                              std::abs(offset - (0.5 * even - 0.5)) < 1e-3;
      places[d] = end_on_end ? AxisPlaces::stretched(from[d], to.shape[d], d != slices)
                             : AxisPlaces::along(from[d], to.shape[d], scale, offset, d != slices);
    }
  }

  at::Tensor on_first_grid(const std::pair<at::Tensor, Grid>& found, const Meta& meta) const {
    const auto& [labels, grid] = found;
    if (meta.history.empty()) return labels;
    const Applied& first = meta.history.front();
    const Affine to_labels = solve(grid.affine, first.affine_before);
    if (!is_move(to_labels))
      throw DataError("was resampled twice (" + first.transform +
                      " first); resample_argmax goes back through one resampling");
    const Shape3 shape = shape_before(first);
    // Axis d of the first grid is axis `from` of the labels, `shift` voxels on; where its sign is
    // negative, flipped.
    at::Tensor source = labels;
    std::vector<std::int64_t> order{0};
    Shape3 start{};
    for (int d = 0; d < 3; ++d) {
      int from = 0;
      while (std::abs(to_labels[4 * from + d]) < 0.5) ++from;
      const auto shift = static_cast<std::int64_t>(std::round(to_labels[4 * from + 3]));
      const bool flipped = to_labels[4 * from + d] < 0;
      start[d] = flipped ? shift - (labels.size(from + 1) - 1) : -shift;
      if (flipped) source = source.flip({from + 1});
      order.push_back(from + 1);
    }
    source = source.permute(order);
    at::Tensor out = at::zeros({labels.size(0), shape[0], shape[1], shape[2]}, labels.options());
    if (probabilities() && p.regions_class_order.empty()) out[0].fill_(1);
    at::Tensor to = out;
    for (int d = 0; d < 3; ++d) {
      const std::int64_t begin = std::max<std::int64_t>(start[d], 0),
                         end = std::min(start[d] + source.size(d + 1), shape[d]);
      if (begin >= end) return out;
      source = source.narrow(d + 1, begin - start[d], end - begin);
      to = to.narrow(d + 1, begin, end - begin);
    }
    to.copy_(source);
    return out;
  }
};

const Register<ResampleArgmax> registered;

}  // namespace
}  // namespace sluice
