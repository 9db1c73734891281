// generate_heatmap: MONAI's GenerateHeatmapd.
#include <ATen/Functions.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct GenerateHeatmap final : Node {
  struct Params : KeyParams {
    std::vector<double> sigma{5};
    std::optional<std::vector<std::string>> heatmap_keys, ref_image_keys;
    std::optional<std::vector<std::int64_t>> spatial_shape;
    double truncated = 4;
    bool normalize = true;
    std::vector<std::string> coordinate_space{"voxel"};
    Params() { keys = {"points"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("generate_heatmap", "A Gaussian around each point.",
                                 "Points [N, axes].")
        .param("sigma", &Params::sigma, "Standard deviation in voxels, one or one an axis.")
        .above(0)
        .length(1, 3)
        .param("heatmap_keys", &Params::heatmap_keys,
               "Fields for the heat maps, float32 [N, X, Y(, Z)]; null: the key with _heatmap "
               "behind it.")
        .length_of("keys")
        .param("ref_image_keys", &Params::ref_image_keys,
               "Images whose size and geometry they get; one, or one a key.")
        .per("keys")
        .param("spatial_shape", &Params::spatial_shape,
               "The size instead, voxels: one number, or one an axis.")
        .length(1, 3)
        .at_least(1)
        .one_of("ref_image_keys", "spatial_shape")
        .param("truncated", &Params::truncated, "Where a Gaussian ends, standard deviations.")
        .above(0)
        .param("normalize", &Params::normalize, "Each map's largest value is 1.")
        .param(
            "coordinate_space", &Params::coordinate_space,
            "world: the points are in mm, and ref_image_keys have the affine; one, or one a key.")
        .choices({"voxel", "world"})
        .per("keys")
        .takes("@keys", Form::any)
        .takes("@ref_image_keys", Form::image, 2, 3)
        .when("ref_image_keys")
        .gives("@heatmap_keys", Form::image)
        .dtype("float32")
        .when("heatmap_keys")
        .gives("@keys@=_heatmap", Form::image)
        .dtype("float32")
        .unless("heatmap_keys", {});
  }

  void open(const OpenContext&) override {
    if (p.ref_image_keys) return;
    for (const auto& space : p.coordinate_space)
      if (space == "world")
        throw Error(Exit::usage, "points of the world need the affine of ref_image_keys");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      const std::string& key = p.keys[i];
      if (p.allow_missing_keys && !out.has(key)) continue;
      const at::Tensor points = out.tensor(key).to(at::kDouble).contiguous();
      if (points.dim() != 2 || points.size(1) < 2 || points.size(1) > 3)
        throw shape_error(key, points, "; points are [N, 2] or [N, 3]");
      require_one_an_axis(p.sigma.size(), "sigma", points.size(1));
      const Field* image = p.ref_image_keys ? &out.at(per_key(*p.ref_image_keys, i)) : nullptr;
      const auto shape = shape_for(image, points.size(1), key);
      const bool world = per_key(p.coordinate_space, i) == "world";
      const Affine to_voxels = world ? inverse(image->geometry().affine) : identity_affine;
      at::Tensor maps = heatmaps(points, to_voxels, shape);
      out.set(p.heatmap_keys ? (*p.heatmap_keys)[i] : key + "_heatmap",
              image ? Field(std::move(maps), image->meta)
                    : Field(std::move(maps), std::make_shared<const Meta>()));
    }
    f.emit(std::move(out));
  }

 private:
  std::vector<std::int64_t> shape_for(const Field* image, std::int64_t axes,
                                      const std::string& key) const {
    std::vector<std::int64_t> shape;
    if (image) {
      shape = spatial_shape(image->tensor);
    } else {
      shape = *p.spatial_shape;
      if (shape.size() == 1) shape.resize(static_cast<std::size_t>(axes), shape[0]);
    }
    if (std::ssize(shape) != axes)
      throw DataError("field \"" + key + "\" has points of " + std::to_string(axes) +
                      " axes for maps of " + list_text(shape));
    return shape;
  }

  // A point outside, or one that is not finite, gives a map of zeros.
  at::Tensor heatmaps(const at::Tensor& points, const Affine& to_voxels,
                      const std::vector<std::int64_t>& shape) const {
    std::vector<std::int64_t> sizes = shape;
    sizes.insert(sizes.begin(), points.size(0));
    at::Tensor out = at::zeros(sizes, at::kFloat);
    for (std::int64_t n = 0; n < points.size(0); ++n) {
      Vec3 at{};
      const double* v = points.const_data_ptr<double>() + n * points.size(1);
      for (std::size_t d = 0; d < shape.size(); ++d) at[d] = v[d];
      at = map_point(to_voxels, at);
      bool inside = true;
      for (std::size_t d = 0; d < shape.size(); ++d) {  // in float32, as MONAI's
        at[d] = static_cast<float>(at[d]);
        inside = inside && at[d] >= 0 && at[d] < static_cast<double>(shape[d]);  // NaN: outside
      }
      if (inside) draw(out[n], at, shape);
    }
    return out;
  }

  void draw(const at::Tensor& map, const Vec3& at, const std::vector<std::int64_t>& shape) const {
    at::Tensor values = at::ones({}, at::kFloat), room = map;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t centre =
          std::min(static_cast<std::int64_t>(std::nearbyint(at[d])), shape[d] - 1);
      const double sigma = per_key(p.sigma, d);
      const auto r = static_cast<std::int64_t>(std::max(sigma * p.truncated, 0.5) + 0.5);
      const std::int64_t low = std::max<std::int64_t>(centre - r, 0);
      const std::int64_t high = std::min(centre + r + 1, shape[d]);
      std::vector<float> weights;
      const auto weight = [sigma](std::int64_t k) {  // the Gaussian's share of voxel k
        const double t = 1 / (std::sqrt(2.0) * sigma), x = static_cast<double>(k);
        return 0.5 * (std::erf(t * (x + 0.5)) - std::erf(t * (x - 0.5)));
      };
      const double peak = p.normalize ? weight(0) : 1;
      for (std::int64_t k = low; k < high; ++k)
        weights.push_back(static_cast<float>(weight(k - centre) / peak));
      values = values.unsqueeze(-1) * at::tensor(weights);
      room = room.narrow(static_cast<std::int64_t>(d), low, high - low);
    }
    room.copy_(values);
  }
};

const Register<GenerateHeatmap> registered;

}  // namespace
}  // namespace sluice
