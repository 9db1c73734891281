// apply_transform_to_points: MONAI's ApplyTransformToPointsd, from an image's voxels to the world
// and back.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "engine/state/list_field.h"
#include "kernels/image/affine.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct ApplyTransformToPoints final : Node {
  struct Params {
    std::vector<std::string> keys{"points"}, refer_keys{"image"};
    std::optional<std::vector<double>> affine;
    bool invert_affine = true, affine_lps_to_ras = false, allow_missing_keys = false;
  } p;

  static Spec spec() {
    return Spec(
               "apply_transform_to_points",
               "Maps points by an image's affine: from millimetres to its voxels, or back. Before "
               "the image's transforms and after them, it moves points as these moved the image. A "
               "picture has none: its millimetres are the voxels that it was loaded with.")
        .in("sample")
        .out("sample")
        .param("keys", &Params::keys, "Points, [points, axes] of 2 or 3 axes.")
        .param("refer_keys", &Params::refer_keys, "Their images; one for all keys or one for each.")
        .per("keys")
        .param("affine", &Params::affine, "16 numbers, row by row; null: the image's own.")
        .length(16, 16)
        .param("invert_affine", &Params::invert_affine,
               "true: from millimetres to voxels; false: from voxels to millimetres.")
        .param("affine_lps_to_ras", &Params::affine_lps_to_ras,
               "The points' millimetres grow to the left and the back (ITK's), not to the right "
               "and the front.")
        .param("allow_missing_keys", &Params::allow_missing_keys, allow_missing_doc)
        .takes("@keys", Form::any, 0)
        .changes("@keys")
        .dtype("float32");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      const at::Tensor& points = field.tensor;
      const std::int64_t axes = points.dim() > 0 ? points.size(-1) : 0;
      if (points.dim() != 2 || (axes != 2 && axes != 3))
        throw DataError("field \"" + p.keys[i] + "\" " + c10::str(points.sizes()) +
                        " is no list of points [points, axes] of 2 or 3 axes");
      const Affine map = affine(f.in(), per_key(p.refer_keys, i));
      at::Tensor matrix = at::empty({axes, axes}, at::kDouble),
                 shift = at::empty({axes}, at::kDouble);
      for (std::int64_t r = 0; r < axes; ++r) {
        for (std::int64_t c = 0; c < axes; ++c)
          matrix[r][c] = map[static_cast<std::size_t>(4 * r + c)];
        shift[r] = map[static_cast<std::size_t>(4 * r + 3)];
      }
      field.tensor = (points.to(at::kDouble).matmul(matrix.t()) + shift).to(at::kFloat);
    });
    f.emit(std::move(out));
  }

 private:
  Affine affine(const Sample& sample, const std::string& image) const {
    Affine a;
    if (p.affine)
      std::copy(p.affine->begin(), p.affine->end(), a.begin());
    else
      a = sample.at(image).geometry().affine;
    if (p.affine_lps_to_ras)
      for (std::size_t k = 0; k < 8; ++k) a[k] = -a[k];
    return p.invert_affine ? inverse(a) : a;
  }
};

const Register<ApplyTransformToPoints> registered;

}  // namespace
}  // namespace sluice
