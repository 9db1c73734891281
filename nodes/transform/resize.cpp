// resize: MONAI's Resized. The same extent with another number of voxels.
#include <cmath>

#include "engine/run/registry.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/resizing.h"
#include "nodes/transform/transform.h"

namespace sluice {
namespace {

struct Resize final : Node {
  struct Params {
    std::vector<std::string> keys{"image", "label"};
    std::vector<std::int64_t> spatial_size;
    std::string size_mode = "all";
    std::vector<std::string> mode{"area"};
    std::vector<bool> align_corners{false};
    std::vector<bool> anti_aliasing{false};
    std::optional<std::vector<double>> anti_aliasing_sigma;
    bool allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec("resize", "Resizes all keys to a given number of voxels.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to resize, each [C, X, Y, Z], [C, X, Y] or a signal [C, X].")
        .param("spatial_size", &Params::spatial_size,
               "Voxels: one number, or one an axis; 0 or less leaves an axis.")
        .required()
        .length(1, 3)
        .param("size_mode", &Params::size_mode,
               "longest: spatial_size, one number, is the longest axis, and proportions stay.")
        .choices({"all", "longest"})
        .param("mode", &Params::mode,
               "How it is resized, \"nearest\" for labels; one, or one a key.")
        .choices(resizing_names)
        .per("keys")
        .param("align_corners", &Params::align_corners,
               "Linear and cubic modes: the outer voxels' centres stay; one, or one a key.")
        .per("keys")
        .param("anti_aliasing", &Params::anti_aliasing,
               "Smooth axes that shrink beforehand; one, or one a key.")
        .per("keys")
        .param("anti_aliasing_sigma", &Params::anti_aliasing_sigma,
               "In voxels, one or one an axis; null: (factor - 1) / 2.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image, 1, 3)
        .per_axis("@keys", "anti_aliasing_sigma")
        .resizes("@keys", "spatial_size")
        .when("size_mode", "all")
        .resizes("@keys")
        .when("size_mode", "longest");
  }

  void open(const OpenContext&) override {
    if (p.size_mode == "longest" && (p.spatial_size.size() != 1 || p.spatial_size[0] < 1))
      throw Error(Exit::usage, "size_mode longest needs one spatial_size above 0");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_volume(
        out, p.keys, p.allow_missing_keys,
        [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
          const Shape3 shape = shape_of(volume), size = wanted(shape, axes);
          const bool align = flag(p.align_corners, i);
          if (size == shape) {
            field.tensor = field.tensor.to(at::kFloat);
            return;
          }
          at::Tensor smooth = volume;
          if (flag(p.anti_aliasing, i)) smooth = smoothed(volume, shape, size, axes);
          const Resizing mode = resizing_of(per_key(p.mode, i), axes);
          // values: the sizes, then 1 where corners were aligned.
          std::vector<double> values{size.begin(), size.begin() + axes};
          values.push_back(align);
          record(field, from_volume(sluice::resize(smooth, size, mode, align), axes),
                 multiply(field.geometry().affine, resize_affine(shape, size, align)), "resize",
                 std::move(values));
        },
        1);
    f.emit(std::move(out));
  }

  Shape3 wanted(const Shape3& shape, std::int64_t axes) const {
    if (p.size_mode == "all") return fall_back(p.spatial_size, shape, axes);
    const auto longest = *std::max_element(shape.begin(), shape.begin() + axes);
    const double scale = static_cast<double>(p.spatial_size[0]) / static_cast<double>(longest);
    Shape3 size = shape;
    for (int d = 0; d < axes; ++d)  // half to even, as Python rounds
      size[d] = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(shape[d]) * scale));
    return size;
  }

  at::Tensor smoothed(const at::Tensor& volume, const Shape3& shape, const Shape3& size,
                      std::int64_t axes) const {
    std::vector<double> sigma(static_cast<std::size_t>(axes)), given;
    if (p.anti_aliasing_sigma)
      given = one_an_axis(*p.anti_aliasing_sigma, axes, "anti_aliasing_sigma");
    bool shrinks = false;
    for (std::size_t d = 0; d < sigma.size(); ++d) {
      const double factor = static_cast<double>(shape[d]) / static_cast<double>(size[d]);
      shrinks |= factor > 1;
      if (factor > 1) sigma[d] = given.empty() ? (factor - 1) / 2 : given[d];
    }
    return shrinks ? gaussian(volume, sigma) : volume;
  }
};

const Register<Resize> registered;

}  // namespace
}  // namespace sluice
