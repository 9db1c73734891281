// saliency: MONAI's SaliencyInferer: which voxels a network's answer comes from, by its activations
// at a layer.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/layered.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"
#include "kernels/net/up.h"

namespace sluice {
namespace {

// [N, C] for each channel, as [N, C, 1, ...] that multiplies x.
at::Tensor each_channel(const at::Tensor& of_channels, const at::Tensor& x) {
  at::DimVector size(static_cast<std::size_t>(x.dim()), 1);
  size[0] = of_channels.size(0), size[1] = of_channels.size(1);
  return of_channels.reshape(size);
}

// The weights that channels have in a map, [N, C]. Selvaraju et al. 2017.
at::Tensor grad_cam(const at::Tensor& gradient) { return gradient.flatten(2).mean(2); }

// Chattopadhyay et al. 2018. The score's exponential is taken for the class's probability, so that
// its derivatives are powers of the score's gradient.
at::Tensor grad_cam_pp(const at::Tensor& output, const at::Tensor& gradient,
                       const at::Tensor& scores) {
  const at::Tensor squared = gradient.square();
  const at::Tensor cubes = (output * gradient.pow(3)).flatten(2).sum(2);
  at::Tensor below = 2 * squared + each_channel(cubes, output);
  below = at::where(below != 0, below, 1.0);
  const at::Tensor rises = at::relu(each_channel(scores.exp().unsqueeze(1), gradient) * gradient);
  return (squared / (below + 1e-7) * rises).flatten(2).sum(2);
}

// From 1 for a sample's least number to 0 for its largest, as MONAI's default_normalizer; a flat
// one stays as it is.
at::Tensor turned_over(const at::Tensor& map) {
  const at::Tensor flat = map.flatten(1);
  const at::Tensor low = flat.amin(1, true), high = flat.amax(1, true);
  return at::where(high > low, 1 - (flat - low) / (high - low), flat).view(map.sizes());
}

struct Saliency final : Node {
  struct Params {
    std::string net, key = "image", output_key = "saliency", cam_name = "GradCAM", fc_layers = "fc",
                     postprocessing = "default_normalizer";
    std::optional<std::string> target_layers;
    std::optional<std::int64_t> class_idx;
  } p;

  static Spec spec() {
    return Spec("saliency",
                "Shows which voxels a network's answer comes from: a class activation map of the "
                "answer, by what a layer gives and how the answer changes with it.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net, "The network's name in \"models\".")
        .required()
        .param("key", &Params::key, "The images, [N, C, X(, Y, Z)].")
        .param("output_key", &Params::output_key,
               "Receives the map, [N, 1, X(, Y, Z)] float32, linear between the layer's voxels.")
        .param(
            "cam_name", &Params::cam_name,
            "CAM: the layer's channels by their weights in the last linear layer; GradCAM: by "
            "the mean gradient of the class's logit; GradCAMpp: by the gradients' higher powers, "
            "for several objects in an image.")
        .choices({"CAM", "GradCAM", "GradCAMpp"})
        .param("target_layers", &Params::target_layers,
               "The layer, by its name in the state_dict or that of a block that ends with it "
               "(layer4); null: what the network pools to a vector.")
        .param("class_idx", &Params::class_idx,
               "The class that is asked for; null: for each image the one with the largest logit.")
        .at_least(0)
        .param("fc_layers", &Params::fc_layers, "CAM: the last linear layer.")
        .param("postprocessing", &Params::postprocessing,
               "default_normalizer: each map from 1 for its least number to 0 for its largest, as "
               "MONAI's; none: the numbers as they are.")
        .choices({"default_normalizer", "none"})
        .reads("net")
        .lane(LaneKind::step)
        .limit(1)
        .takes("@key", Form::batch, 1, 3)
        .enters("@key", "net")
        .gives("@output_key", Form::batch)
        .like("@key")
        .channels("1")
        .dtype("float32")
        .any_device();
  }

  void open(const OpenContext& context) override {
    network_ = context.resources->network(p.net);
    layered_ = dynamic_cast<Layered*>(network_.get());
    if (!layered_)
      throw Error(Exit::usage, "the layers of network \"" + p.net +
                                   "\" cannot be seen: needed is one of the built-in types");
  }

  void process(Firing& f) override {
    network_->train(false);
    const at::Tensor x = f.in().tensor(p.key).to(at::kFloat);
    at::Tensor classes, scores;
    const auto score = [&](const at::Tensor& logits) {
      classes = classes_of(logits);
      const at::Tensor its = logits.dim() == 2 ? logits.gather(1, classes.unsqueeze(1)).squeeze(1)
                                               : logits.select(1, *p.class_idx).flatten(1).sum(1);
      scores = its.detach();
      return its.sum();
    };
    const bool by_weights = p.cam_name == "CAM";
    const LayerView view = layered_->view_layer(p.target_layers.value_or(""), x,
                                                by_weights ? Layered::Score() : score);
    const at::NoGradGuard no_grad;
    const at::Tensor& a = view.output;
    if (a.dim() != x.dim())
      throw Error(Exit::usage, "target_layers: the layer gives " + std::to_string(a.dim() - 2) +
                                   " spatial axes for images of " + std::to_string(x.dim() - 2));
    at::Tensor map;
    if (by_weights) {
      map = weighed(a, classes_of(view.network_output));
    } else {
      const at::Tensor by =
          p.cam_name == "GradCAM" ? grad_cam(view.gradient) : grad_cam_pp(a, view.gradient, scores);
      map = at::relu((each_channel(by, a) * a).sum(1, true));
    }
    map = linear_to(map, x.sizes().slice(2), /*align_corners=*/false);
    Field field = f.in().at(p.key);
    field.tensor = p.postprocessing == "none" ? map : turned_over(map);
    Sample out = f.in();
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  // [N]
  at::Tensor classes_of(const at::Tensor& logits) const {
    const std::int64_t classes = logits.size(1);
    if (p.class_idx && *p.class_idx >= classes)
      throw Error(Exit::usage, "class_idx is " + std::to_string(*p.class_idx) + ", but network \"" +
                                   p.net + "\" has " + std::to_string(classes) + " classes");
    if (logits.dim() > 2 && (!p.class_idx || p.cam_name != "GradCAM"))
      throw Error(Exit::usage, "network \"" + p.net +
                                   "\" answers voxel by voxel, for which there is GradCAM of a "
                                   "class_idx");
    return p.class_idx ? at::full({logits.size(0)}, *p.class_idx, logits.options().dtype(at::kLong))
                       : logits.argmax(1);
  }

  // The linear layer voxel by voxel, of each image's class. Zhou et al. 2016.
  at::Tensor weighed(const at::Tensor& a, const at::Tensor& classes) const {
    at::Tensor weight, bias;
    for (const auto& [name, t] : network_->parameters()) {
      if (name == p.fc_layers + ".weight") weight = t;
      if (name == p.fc_layers + ".bias") bias = t;
    }
    if (!weight.defined() || weight.dim() != 2 || weight.size(1) != a.size(1))
      throw Error(Exit::usage, "fc_layers: network \"" + p.net + "\" has no linear layer \"" +
                                   p.fc_layers + "\" of " + std::to_string(a.size(1)) + " inputs");
    at::Tensor map = (each_channel(weight.index_select(0, classes), a) * a).sum(1, true);
    if (bias.defined()) map += each_channel(bias.index_select(0, classes).unsqueeze(1), map);
    return map;
  }

  std::shared_ptr<Network> network_;
  Layered* layered_ = nullptr;
};

const Register<Saliency> registered;

}  // namespace
}  // namespace sluice
