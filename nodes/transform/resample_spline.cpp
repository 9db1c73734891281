// resample_spline: nnU-Net's resampling of images and labels to a voxel size.
#include "engine/run/registry.h"
#include "kernels/image/label_votes.h"
#include "kernels/image/spline_resize.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct ResampleSpline final : Node {
  struct Params {
    std::vector<std::string> keys{"image"}, label_keys;
    std::vector<double> spacing;
    std::string separate_z = "auto";
  } p;

  static Spec spec() {
    return Spec("resample_spline",
                "Resamples to a voxel size as nnU-Net does: images by cubic splines, labels by "
                "their indicators, thick slices one by one.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Images [C, X, Y, Z] or [C, X, Y]; they become float32 and keep their range.")
        .param("label_keys", &Params::label_keys,
               "Labels of the same form: the label that is largest between its neighbours.")
        .param("spacing", &Params::spacing,
               "Voxel size in mm, one an axis; 0 keeps an axis as it is.")
        .required()
        .length(2, 3)
        .at_least(0)
        .param("separate_z", &Params::separate_z,
               "auto: an axis of more than 3 times the least spacing is left out of the splines, "
               "and along it the nearest slice counts; never.")
        .choices({"auto", "never"})
        .takes("@keys", Form::image, 2, 3)
        .takes("@label_keys", Form::image, 2, 3)
        .resizes("@keys")
        .resizes("@label_keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (const auto* keys : {&p.keys, &p.label_keys})
      for_each_key(out, *keys, false, [&](Field& field, std::size_t i) {
        require_spatial(field.tensor, (*keys)[i]);
        resample(field, (*keys)[i], keys == &p.label_keys);
      });
    f.emit(std::move(out));
  }

 private:
  void resample(Field& field, const std::string& key, bool is_label) const {
    const auto axes = static_cast<int>(field.tensor.dim() - 1);
    if (std::ssize(p.spacing) != axes)
      throw DataError("field \"" + key + "\" has " + std::to_string(axes) + " axes, spacing " +
                      std::to_string(p.spacing.size()));
    const Affine source = field.geometry().affine;
    const Vec3 have = voxel_spacing(source);
    const at::Tensor volume = to_volume(field.tensor);
    Vec3 want = have;
    Shape3 shape = shape_of(volume);
    for (std::size_t d = 0; d < p.spacing.size(); ++d) {
      if (p.spacing[d] > 0) want[d] = p.spacing[d];
      shape[d] = static_cast<std::int64_t>(
          std::nearbyint(have[d] / want[d] * static_cast<double>(shape[d])));
      if (shape[d] < 1)
        throw DataError("field \"" + key + "\" would have no voxel along axis " +
                        std::to_string(d) + " at a spacing of " + std::to_string(want[d]) + " mm");
    }
    const std::optional<int> slices =
        p.separate_z == "auto" ? slice_axis(have, want, axes) : std::nullopt;
    if (!is_label) field.tensor = field.tensor.to(at::kFloat);
    if (shape == shape_of(volume)) return;
    record(field,
           from_volume(is_label ? label_resize(volume, shape, slices)
                                : spline_resize(volume, shape, slices),
                       axes),
           stretched(source, shape_of(volume), shape), "resample_spline",
           {want[0], want[1], want[2], slices ? double(*slices) : -1});
  }

  // The outer faces stay: voxel i of n reads (i + 0.5) m / n - 0.5.
  static Affine stretched(const Affine& source, const Shape3& from, const Shape3& to) {
    Affine grid = identity_affine;
    for (std::size_t d = 0; d < 3; ++d) {
      const double scale = static_cast<double>(from[d]) / static_cast<double>(to[d]);
      grid[5 * d] = scale;
      grid[4 * d + 3] = 0.5 * scale - 0.5;
    }
    return multiply(source, grid);
  }
};

const Register<ResampleSpline> registered;

}  // namespace
}  // namespace sluice
