// anchor_generator, anchor_generator_with_anchor_shape: MONAI's AnchorGenerator and
// AnchorGeneratorWithAnchorShape.
#include "kernels/image/anchors.h"

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

struct AnchorParams {
  std::string key = "image", output_key = "anchors", indexing = "ij";
  std::vector<std::string> map_keys;
};

template <class P>
Spec anchor_spec(std::string name, std::string does) {
  Spec s(std::move(name), std::move(does));
  s.in("sample")
      .out("sample")
      .param("key", static_cast<std::string P::*>(&P::key), "The batch of images.")
      .param("map_keys", static_cast<std::vector<std::string> P::*>(&P::map_keys),
             "Fields with maps of a network, one a level, [N, C, X, Y(, Z)].")
      .length(1)
      .required()
      .param("output_key", static_cast<std::string P::*>(&P::output_key),
             "Field for the anchors of all levels, [anchors, 2 axes] float32 in voxels of the "
             "image: least corner, greatest corner.")
      .param("indexing", static_cast<std::string P::*>(&P::indexing),
             "xy: an anchor's first two coordinates change places.")
      .choices({"ij", "xy"})
      .takes("@key", Form::batch, 2, 3)
      .takes("@map_keys", Form::batch, 2, 3)
      .gives("@output_key", Form::any)
      .dtype("float32")
      .lane(LaneKind::step)
      .any_device();
  return s;
}

template <class P>
struct Anchors : Node {
  using Params = P;
  P p;

  void process(Firing& f) final {
    const at::Tensor& image = f.in().tensor(p.key);
    if (cells_.size() != p.map_keys.size())
      throw Error(Exit::usage, "anchors of " + std::to_string(cells_.size()) + " levels for " +
                                   std::to_string(p.map_keys.size()) + " map_keys");
    std::vector<at::Tensor> levels;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const at::Tensor& map = f.in().tensor(p.map_keys[i]);
      const at::IntArrayRef extents = image.sizes().slice(2), grid = map.sizes().slice(2);
      if (map.dim() != image.dim() || std::ssize(grid) * 2 != cells_[i].size(1))
        throw shape_error(p.map_keys[i], map,
                          ", the image has " + list_text(image.sizes()) + " and its anchors " +
                              std::to_string(cells_[i].size(1) / 2) + " axes");
      levels.push_back(grid_anchors(cells_[i].to(map.device()), extents, grid, p.indexing == "xy"));
    }
    Sample out = f.in();
    out.set(p.output_key, Field(at::cat(levels), std::make_shared<const Meta>()));
    f.emit(std::move(out));
  }

 protected:
  std::vector<at::Tensor> cells_;  // of each level
};

struct SizedParams : AnchorParams {
  Json sizes = Json::array({{20, 30, 40}});
  Json aspect_ratios = Json::parse("[[[0.5, 1], [1, 0.5]]]");
};

struct AnchorGenerator final : Anchors<SizedParams> {
  static Spec spec() {
    return anchor_spec<Params>("anchor_generator",
                               "The anchors of a detector, by sizes and ratios of extents "
                               "(MONAI's AnchorGenerator).")
        .param("sizes", &Params::sizes, "Of each level: a list of sizes in voxels, or one.")
        .param("aspect_ratios", &Params::aspect_ratios,
               "Of each level: a list of ratios to the first extent, in 3-D of pairs of them. One "
               "list of numbers is that of all levels.");
  }

  void open(const OpenContext&) override {
    const auto wrong = [](const char* what, const Json& j) {
      throw Error(Exit::usage, std::string(what) + " cannot be " + j.dump());
    };
    const auto list = [&](const char* what, const Json& j) {
      const bool numbers =
          j.is_array() && !j.empty() && std::all_of(j.begin(), j.end(), [](const Json& n) {
            return n.is_number() && n.get<double>() > 0;
          });
      if (!numbers) wrong(what, j);
      return j.get<std::vector<double>>();
    };
    const Json &sizes = p.sizes, &ratios = p.aspect_ratios;
    if (!sizes.is_array() || sizes.empty()) wrong("sizes", sizes);
    if (!ratios.is_array() || ratios.empty()) wrong("aspect_ratios", ratios);
    const bool shared = ratios[0].is_number();
    if (!shared && ratios.size() != sizes.size())
      throw Error(Exit::usage, "aspect_ratios are of " + std::to_string(ratios.size()) +
                                   " levels, sizes of " + std::to_string(sizes.size()));
    std::size_t others = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Json& level = shared ? ratios : ratios[i];
      if (!level.is_array() || level.empty()) wrong("aspect_ratios", ratios);
      std::vector<std::vector<double>> all;
      for (const Json& one : level) {
        all.push_back(list("aspect_ratios", one.is_array() ? one : Json::array({one})));
        if (others == 0) others = all.back().size();
        if (others > 2 || all.back().size() != others) wrong("aspect_ratios", ratios);
      }
      cells_.push_back(sized_anchors(
          list("sizes", sizes[i].is_array() ? sizes[i] : Json::array({sizes[i]})), all));
    }
  }
};

struct ShapedParams : AnchorParams {
  std::vector<double> feature_map_scales{1, 2, 4, 8};
  std::vector<std::vector<double>> base_anchor_shapes{
      {32, 32, 32}, {48, 20, 20}, {20, 48, 20}, {20, 20, 48}};
};

struct AnchorGeneratorWithAnchorShape final : Anchors<ShapedParams> {
  static Spec spec() {
    return anchor_spec<Params>("anchor_generator_with_anchor_shape",
                               "The anchors of a detector, by their extents (MONAI's "
                               "AnchorGeneratorWithAnchorShape).")
        .param("feature_map_scales", &Params::feature_map_scales,
               "Of each level: what the extents are multiplied with.")
        .above(0)
        .length(1)
        .param("base_anchor_shapes", &Params::base_anchor_shapes,
               "Extents of each anchor, in voxels.")
        .length(1);
  }

  void open(const OpenContext&) override {
    std::vector<at::Tensor> shapes;
    for (const std::vector<double>& shape : p.base_anchor_shapes) {
      const bool extents = (shape.size() == 2 || shape.size() == 3) &&
                           shape.size() == p.base_anchor_shapes[0].size() &&
                           *std::min_element(shape.begin(), shape.end()) > 0;
      if (!extents)
        throw Error(Exit::usage, "base_anchor_shapes must have two extents each, or three each");
      shapes.push_back(at::tensor(shape, at::kFloat));
    }
    for (const double scale : p.feature_map_scales)
      cells_.push_back(shaped_anchors(at::stack(shapes) * scale));
  }
};

const Register<AnchorGenerator> registered;
const Register<AnchorGeneratorWithAnchorShape> registered_with_shape;

}  // namespace
}  // namespace sluice
