// rand_smooth_deform: MONAI's RandSmoothDeformd. One field for all keys. With landmark_keys also
// RandImageLMDeformd of the Model Zoo's valve_landmarks.
#include "nodes/transform/smooth_fields.h"

namespace sluice {
namespace {

struct RandSmoothDeform final : SmoothFieldNode {
  struct Params : SmoothFieldParams {
    std::vector<double> def_range{1.0};
    std::vector<std::string> grid_mode{"nearest"}, landmark_keys;
    std::string grid_padding_mode = "border";
    bool grid_align_corners = false;
  } p;

  static Spec spec() {
    Spec s("rand_smooth_deform",
           "Moves voxels by displacements that vary smoothly over the image.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to deform, each [C, X, Y, Z] or [C, X, Y]; their type stays.")
        .param("def_range", &Params::def_range,
               "Bounds of the displacements, in halves of the image's extent; one number v stands "
               "for [-v, v].")
        .length(1, 2)
        .param("grid_mode", &Params::grid_mode,
               "Interpolation, \"nearest\" for labels; one, or one a key. bicubic: of pictures.")
        .choices({"nearest", "bilinear", "bicubic"})
        .per("keys")
        .param("grid_padding_mode", &Params::grid_padding_mode, "Outside the image.")
        .choices({"zeros", "border", "reflection"})
        .param("grid_align_corners", &Params::grid_align_corners,
               "-1 and 1 are the outer voxels' centres; otherwise, as MONAI's default, their outer "
               "faces, though the grid without displacements goes from -1 to 1 too.");
    add_smooth_field_params<Params>(s, "field_mode", "0");
    s.param("prob", &Params::prob, "Probability that a sample is changed.").range(0, 1);
    s.param("landmark_keys", &Params::landmark_keys,
            "Images [1, X, Y] or [1, X, Y, Z] of landmarks: each voxel that is not 0 goes where "
            "the field moves it, to a whole voxel, so that none is lost; at the farthest to the "
            "image's border.");
    return s.param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::image, 2, 3)
        .takes("@landmark_keys", Form::image, 2, 3)
        .random();
  }

  void open(const OpenContext&) override {
    bounds_ = bounds(p.def_range);
    if (bounds_.first >= bounds_.second)
      throw Error(Exit::usage, "def_range must be [low, high], or one number other than 0");
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    const auto drawn = [&](const at::Tensor& volume, std::int64_t axes) {
      Random same = random;  // the same field for each key
      return drawn_field(p, same, bounds_.first, bounds_.second, 0, axes, shape_of(volume), axes);
    };
    for_each_volume(
        out, p.keys, p.allow_missing_keys,
        [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
          const at::Tensor by = drawn(volume, axes);
          // No affine describes it.
          record(field,
                 from_volume(field_deform(volume, axes, by, per_key(p.grid_mode, i),
                                          parse_padding(p.grid_padding_mode), p.grid_align_corners),
                             axes),
                 field.geometry().affine, "rand_smooth_deform", {});
        });
    for_each_volume(out, p.landmark_keys, p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t i) {
                      if (volume.size(0) != 1)
                        throw shape_error(p.landmark_keys[i], field.tensor,
                                          "; an image of landmarks has one channel");
                      record(field, from_volume(moved_marks(volume, drawn(volume, axes)), axes),
                             field.geometry().affine, "rand_smooth_deform", {});
                    });
    f.emit(std::move(out));
  }

 private:
  // By the field in halves of the extents, as the image's voxels come from there. In scan order:
  // of two marks that meet the last one stays.
  static at::Tensor moved_marks(const at::Tensor& marks, const at::Tensor& field) {
    at::Tensor out = at::zeros_like(marks);
    const at::Tensor all = marks[0].nonzero(), by = field.contiguous();
    const auto where = all.accessor<std::int64_t, 2>();
    const auto far = by.accessor<float, 4>();
    for (std::int64_t m = 0; m < all.size(0); ++m) {
      const std::int64_t x = where[m][0], y = where[m][1], z = where[m][2];
      std::int64_t to[3]{x, y, z};
      for (std::int64_t d = 0; d < by.size(0); ++d) {
        const auto size = marks.size(d + 1);
        const float halves = far[d][x][y][z] * static_cast<float>(size) / 2;
        to[d] = std::clamp<std::int64_t>(to[d] - static_cast<std::int64_t>(halves), 0, size - 1);
      }
      out[0][to[0]][to[1]][to[2]].copy_(marks[0][x][y][z]);
    }
    return out;
  }

  std::pair<double, double> bounds_;
};

const Register<RandSmoothDeform> registered;

}  // namespace
}  // namespace sluice
