// rand_rotate_scale: batchgeneratorsv2's SpatialTransform as nnU-Net uses it: rotation and scale
// about the centre, then the patch there.
#include <cmath>

#include "engine/run/registry.h"
#include "kernels/image/label_votes.h"
#include "kernels/image/resample.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct RandRotateScale final : Node {
  struct Params {
    std::vector<std::string> keys{"image"}, label_keys{"label"};
    std::vector<std::int64_t> spatial_size;
    double prob_rotate = 0.2, prob_scale = 0.2, outside = -1;
    std::vector<double> rotate{-M_PI / 6, M_PI / 6}, scale{0.7, 1.4};
    bool dummy_2d = false;
  } p;

  static Spec spec() {
    return Spec("rand_rotate_scale",
                "Turns and scales about the centre and takes the patch there, as nnU-Net does.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Images [C, X, Y] or [C, X, Y, Z]: linear, 0 outside; they become float32.")
        .param("label_keys", &Params::label_keys,
               "Labels of the same extents: the label whose indicator is largest.")
        .param("spatial_size", &Params::spatial_size, "The patch, voxels, one an axis.")
        .required()
        .length(2, 3)
        .at_least(1)
        .param("rotate", &Params::rotate, "[low, high]: each axis' angle in radians.")
        .length(2, 2)
        .param("scale", &Params::scale,
               "[low, high] of one factor for all axes; above 1 the image shrinks.")
        .length(2, 2)
        .above(0)
        .param("prob_rotate", &Params::prob_rotate, "Probability of a rotation.")
        .range(0, 1)
        .param("prob_scale", &Params::prob_scale, "Probability of a scale.")
        .range(0, 1)
        .param("outside", &Params::outside, "What labels have outside.")
        .param("dummy_2d", &Params::dummy_2d,
               "Only in the plane of the last two axes, each slice alike: for thick slices.")
        .random()
        .takes("@keys", Form::image, 2, 3)
        .takes("@label_keys", Form::image, 2, 3)
        .resizes("@keys", "spatial_size")
        .resizes("@label_keys", "spatial_size");
  }

  void process(Firing& f) override {
    Random random = f.random();
    const std::size_t axes = p.spatial_size.size();
    const bool rotates = random.chance(p.prob_rotate), scales = random.chance(p.prob_scale);
    Vec3 angles{};
    if (rotates)
      for (std::size_t d = 0; d < axes; ++d) angles[d] = random.uniform(p.rotate[0], p.rotate[1]);
    const double scale = scales ? random.uniform(p.scale[0], p.scale[1]) : 1;
    Sample out = f.in();
    for (const auto* keys : {&p.keys, &p.label_keys})
      for_each_volume(
          out, *keys, false,
          [&](Field& field, const at::Tensor& volume, std::int64_t found, std::size_t i) {
            if (found != static_cast<std::int64_t>(axes))
              throw DataError("field \"" + (*keys)[i] + "\" has " + std::to_string(found) +
                              " axes, spatial_size " + std::to_string(axes));
            change(field, volume, keys == &p.label_keys,
                   rotates || scales ? std::optional(turned(angles, scale)) : std::nullopt);
          });
    f.emit(std::move(out));
  }

 private:
  using Matrix3 = std::array<double, 9>;

  static Matrix3 product(const Matrix3& a, const Matrix3& b) {
    Matrix3 c{};
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j)
        for (std::size_t k = 0; k < 3; ++k) c[3 * i + j] += a[3 * i + k] * b[3 * k + j];
    return c;
  }

  // Rz Ry Rx S; in two axes, and for slices, the rotation in their plane by the last angle.
  Matrix3 turned(const Vec3& angles, double scale) const {
    const std::size_t axes = p.spatial_size.size();
    if (axes == 2 || p.dummy_2d) {
      // nnU-Net draws one angle for each of a picture's two axes and takes the last.
      const double a = angles[1], c = std::cos(a) * scale, s = std::sin(a) * scale;
      if (axes == 2) return {c, -s, 0, s, c, 0, 0, 0, 1};
      return {1, 0, 0, 0, c, -s, 0, s, c};
    }
    const auto cos = [&](std::size_t d) { return std::cos(angles[d]); };
    const auto sin = [&](std::size_t d) { return std::sin(angles[d]); };
    const Matrix3 x{1, 0, 0, 0, cos(0), -sin(0), 0, sin(0), cos(0)};
    const Matrix3 y{cos(1), 0, sin(1), 0, 1, 0, -sin(1), 0, cos(1)};
    const Matrix3 z{cos(2), -sin(2), 0, sin(2), cos(2), 0, 0, 0, 1};
    return product(product(product(z, y), x), {scale, 0, 0, 0, scale, 0, 0, 0, scale});
  }

  void change(Field& field, const at::Tensor& volume, bool is_label,
              const std::optional<Matrix3>& by) const {
    const auto axes = static_cast<std::int64_t>(p.spatial_size.size());
    const Shape3 from = shape_of(volume), to = fall_back(p.spatial_size, from, axes);
    const double outside = is_label ? p.outside : 0;
    if (!by) {
      Box box{{}, to};
      for (std::size_t d = 0; d < 3; ++d) box.start[d] = from[d] / 2 - to[d] / 2;
      const at::Tensor source = is_label ? volume : volume.to(at::kFloat);
      record(field, from_volume(crop_pad(source, box, outside), axes),
             multiply(field.geometry().affine, box_affine(box)), "rand_rotate_scale", numbers(box));
      return;
    }
    Affine to_source = identity_affine;
    for (std::size_t i = 0; i < 3; ++i) {
      to_source[4 * i + 3] = static_cast<double>(from[i] - 1) / 2;
      for (std::size_t j = 0; j < 3; ++j) {
        to_source[4 * i + j] = (*by)[3 * i + j];
        to_source[4 * i + 3] -= (*by)[3 * i + j] * static_cast<double>(to[j] - 1) / 2;
      }
    }
    const at::Tensor result =
        is_label ? label_resample(volume, to_source, to, outside)
                 : resample(volume, to_source, to,
                            {.mode = Interpolation::linear, .padding = Padding::zeros});
    record(field, from_volume(result, axes), multiply(field.geometry().affine, to_source),
           "rand_rotate_scale", {});
  }
};

const Register<RandRotateScale> registered;

}  // namespace
}  // namespace sluice
