// vista3d: MONAI's VISTA3D (monai.networks.nets 1.6.1) as its vista3d132 puts it together, with its
// parameter names. He et al. 2024.
//
//   image ─ segresnet_ds2 ┬ features ─ two blocks ─┐
//                         │       class_vector ─ MLP ─ product ─▶ a map of each class
//                         └ features ─ / 2 ─ tokens ─┐
//       points ─ waves + labels ─ two-way transformer ─ x 2, product ─▶ a map of each prompt
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/net/ops.h"
#include "nodes/network/segresnet_ds_parts.h"
#include "nodes/network/vista3d_points.h"

namespace sluice {
namespace {

struct Vista3d final : ImageNetwork<Vista3d> {
  struct Params : ImageNet {
    std::vector<std::string> prompts{"class"};
    std::int64_t encoder_embed_dim = 48, n_classes = 512, last_supported = 132;
    std::vector<std::int64_t> blocks_down{1, 2, 2, 4, 4};
    std::optional<double> radius;
  } p;

  static Spec spec() {
    Spec s = image_net<Params>(
        "vista3d",
        "Segments what it is asked for, one map of logits a prompt (MONAI's VISTA3D, its "
        "vista3d132). Inputs: image, class_vector [N, prompts], and of points point_coords [N, "
        "prompts, points, 3] in voxels of the image and point_labels [N, prompts, points]: 1 "
        "inside, 0 outside, 3 and 2 the same for classes such as tumours, -1 no point.",
        false);
    leave_out(s, {"spatial_dims", "out_channels"});
    return s
        .param("prompts", &Params::prompts,
               "What asks: classes, points, or both, where the points' maps replace those of the "
               "classes around each point by Gaussians.")
        .choices({"class", "point"})
        .length(1)
        .param("encoder_embed_dim", &Params::encoder_embed_dim,
               "Channels of the encoder's first level and of all embeddings: a multiple of 8.")
        .at_least(8)
        .param("n_classes", &Params::n_classes, "Classes that have an embedding.")
        .at_least(1)
        .param("last_supported", &Params::last_supported,
               "Points of a class beyond this one are of an unknown class.")
        .at_least(0)
        .param("blocks_down", &Params::blocks_down,
               "Residual blocks of every level of the encoder, top first.")
        .at_least(1)
        .length(2)
        .param("radius", &Params::radius,
               "Voxels, standard deviation of those Gaussians; null: a fifth of the image's "
               "shortest extent.")
        .above(0);
  }

  bool asks(const char* what) const {
    return std::find(p.prompts.begin(), p.prompts.end(), what) != p.prompts.end();
  }

  std::vector<NetInput> inputs() const {
    std::vector<NetInput> all{{.channels = p.in_channels}, NetInput::number("class_vector", 1)};
    if (asks("point")) {
      all.push_back(NetInput::number("point_coords", 3));
      all.push_back(NetInput::number("point_labels", 2));
    }
    return all;
  }

  Values build(const Scope& s, const Values& x) const {
    require_multiples("encoder_embed_dim", p.encoder_embed_dim, 8);
    const SegResDsParams encoder = encoder_params();
    const SegResDs net{encoder};
    const Scope at = s / "image_encoder";
    const Values skips = net.way_down(at / "encoder", x[0]);
    Value classes, points;
    if (asks("class"))
      classes = class_head(s / "class_head", net.way_up(at / "up_layers_auto", skips)[0], x[1]);
    if (!asks("point")) return {classes};
    const PointHead head{p.encoder_embed_dim, p.n_classes, p.last_supported};
    points = head.maps(s / "point_head", net.way_up(at / "up_layers", skips)[0], x[1], x[2], x[3]);
    return {asks("class") ? combined(classes, points, x[2], x[3]) : unless_none(points, x[3])};
  }

  bool recordable() const override { return false; }  // the host looks at the classes' numbers
  std::string unfit(at::IntArrayRef extents) const override {
    return SegResDs{encoder_params()}.unfit(extents);
  }

 private:
  SegResDsParams encoder_params() const {
    SegResDsParams e;
    e.in_channels = p.in_channels;
    e.out_channels = e.init_filters = p.encoder_embed_dim;
    e.blocks_down = p.blocks_down;
    e.norm = "instance";
    return e;
  }

  // A map of each class: the product of its embedding and the voxels' features.
  Value class_head(const Scope& s, const Value& features, const Value& class_vector) const {
    const std::int64_t c = p.encoder_embed_dim;
    Value image = features;
    for (std::int64_t i = 0; i < 2; ++i)
      image = unet_block(s / "image_post_mapping" / i / "layer", image, c, {.residual = true});
    const int table =
        (s / "class_embeddings").parameter("weight", {p.n_classes, c}, Init::normal(1));
    const auto rows = [most = p.n_classes](In t) {
      const at::Tensor number = t[0].to(at::kLong);
      if (number.lt(0).logical_or(number.ge(most)).any().item<bool>())
        throw DataError("classes go from 0 to " + std::to_string(most - 1));
      return at::embedding(t[1], number);
    };
    Value prompt = class_vector.op(
        "embedding", rows, {.parameters = {table}, .channels = c, .axes = 0, .tokens = true});
    prompt = linear(s / "mlp.0", prompt, c);
    prompt = gelu(prompt.op("normalized", [c](In t) { return at::layer_norm(t[0], {c}); }));
    return prompt_maps(linear(s / "mlp.3", prompt, c), image);
  }

  // Around points theirs, elsewhere the classes': shares are sums of Gaussians.
  Value combined(const Value& classes, const Value& points, const Value& coords,
                 const Value& labels) const {
    const auto function = [radius = p.radius](In t) {
      const at::IntArrayRef extents = t[0].sizes().slice(2);
      const std::int64_t shortest = *std::min_element(extents.begin(), extents.end());
      const double r =
          radius.value_or(static_cast<double>(std::max<std::int64_t>(shortest / 5, 1)));
      at::Tensor share = at::zeros_like(t[0], at::kFloat);
      for (std::int64_t i = 0; i < t[3].size(2); ++i) {
        at::Tensor around =
            t[3].select(2, i).gt(-1).to(at::kFloat).reshape({t[0].size(0), -1, 1, 1, 1});
        for (std::int64_t a = 0; a < 3; ++a) {
          at::DimVector along(5, 1);
          along[2 + a] = extents[a];
          const at::Tensor voxel = at::arange(extents[a], share.options()).view(along),
                           point =
                               t[2].select(2, i).select(2, a).reshape({t[0].size(0), -1, 1, 1, 1});
          around = around * ((voxel - point).square() / (-2 * r * r)).exp();
        }
        share += around;
      }
      const at::Tensor rest = (1 - share).clamp_min(0);
      return t[0] * rest + t[1] * (1 - rest);
    };
    return classes.op("combined", function, {.with = {points, coords, labels}});
  }

  // Nothing is there where no point is.
  static Value unless_none(const Value& points, const Value& labels) {
    const auto function = [](In t) {
      const at::Tensor asked = (t[1] > -1).any(2).view({t[1].size(0), t[1].size(1), 1, 1, 1});
      return at::where(asked, t[0], at::full({}, -9999.0, t[0].options()));
    };
    return points.op("unless_none", function, {.with = {labels}});
  }
};

const RegisterNetwork<Vista3d> registered;

}  // namespace
}  // namespace sluice
