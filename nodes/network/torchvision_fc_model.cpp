// torchvision_fc_model: MONAI's TorchVisionFCModel (monai.networks.nets.TorchVisionFCModel 1.6.1)
// on torchvision's ResNets, ResNeXts, wide ResNets and Inception v3, without pretrained weights,
// with its parameter names.
//
//   x ─ conv 7 / 2 ─ norm ─ relu ─ max pool 3 / 2 ─ four layers ─ pool ─ linear, or conv 1 ─▶
//   logits
#include "kernels/net/inception.h"
#include "kernels/net/resnet.h"
#include "nodes/network/picture_net.h"

namespace sluice {
namespace {

struct TorchVisionFC final : ImageNetwork<TorchVisionFC> {
  struct Params : PictureNet {
    std::string model_name = "resnet18";
    Json pool = Json::array({"avg", {{"kernel_size", 7}, {"stride", 1}}});
    bool use_conv = false, bias = true, transform_input = false;
    Params() { out_channels = 1; }
  } p;

  static Spec spec() {
    Spec s = class_net<Params>(
        "torchvision_fc_model",
        "torchvision's ResNets and Inception v3 with a last layer of one's "
        "own (MONAI's TorchVisionFCModel; num_classes is out_channels, and in_channels "
        "counts the image's).",
        false);
    declared(s, "spatial_dims").max = 2;
    return s.param("model_name", &Params::model_name, "Which one.")
        .choices(model_names())
        .param("use_conv", &Params::use_conv,
               "The last layer is a convolution 1; the output keeps its spatial axes.")
        .param("pool", &Params::pool,
               "Before the last layer: [\"avg\" or \"max\", {\"kernel_size\": ..., \"stride\": "
               "...}]; \"\": none; null: torchvision's own, over all voxels, which is "
               "inception_v3's only one.")
        .param("bias", &Params::bias, "The last layer has a bias.")
        .param(
            "transform_input", &Params::transform_input,
            "inception_v3: takes pictures normalised as ImageNet's, as torchvision's own weights "
            "do (MONAI's pretrained is true).");
  }

  Values build(const Scope& s, const Value& image) const {
    if (p.model_name == inception) return {classes(s / "fc", inception_features(s, image))};
    if (p.transform_input) refuse("transform_input is inception_v3's alone");
    ResNetOptions o = vision_model(p.model_name);
    // With a pool of one's own MONAI takes torchvision's layers by their numbers.
    if (!p.pool.is_null()) o.names = {"0", "1", "2", "4", "5", "6", "7"};
    return {classes(s / "fc", pooled(resnet_features(s / "features", image, o).back()))};
  }

 private:
  static constexpr const char* inception = "inception_v3";
  static std::vector<std::string> model_names() {
    std::vector<std::string> all = vision_models();
    all.emplace_back(inception);
    return all;
  }

  Value inception_features(const Scope& s, const Value& image) const {
    if (!p.pool.is_null()) refuse("inception_v3 has a pool of its own: pool is null");
    if (p.transform_input && p.in_channels != 3) refuse("transform_input takes 3 in_channels");
    return inception_v3_features(s / "features", image, p.transform_input, p.use_conv);
  }
  Value classes(const Scope& s, Value x) const {
    if (p.use_conv) return conv(s, x, p.out_channels, {.kernel = 1, .bias = p.bias});
    if (x.axes > 0) x = flatten(x, 1);
    return linear(s, x, p.out_channels, {.bias = p.bias});
  }

  struct Pool {
    bool max = false;
    std::int64_t kernel = 1, stride = 1;
  };
  std::optional<Pool> pool() const {
    if (p.pool.is_null() || p.pool == "") return {};
    const bool listed = p.pool.is_array() && p.pool.size() == 2 && p.pool[1].is_object();
    if (!listed || (p.pool[0] != "avg" && p.pool[0] != "max"))
      refuse(
          "pool is [\"avg\" or \"max\", {\"kernel_size\": ..., \"stride\": ...}], \"\" or null, "
          "found " +
          p.pool.dump());
    Pool given{.max = p.pool[0] == "max"};
    for (const auto& [key, value] : p.pool[1].items()) {
      if ((key != "kernel_size" && key != "stride") || !value.is_number_integer() || value < 1)
        refuse("pool has kernel_size and stride, numbers of at least 1; found " + key + " " +
               value.dump());
    }
    given.kernel = p.pool[1].value("kernel_size", std::int64_t{1});
    given.stride = p.pool[1].value("stride", given.kernel);
    return given;
  }
  Value pooled(const Value& x) const {
    if (p.pool.is_null()) return p.use_conv ? channel_means(x) : global_avg_pool(x);
    const auto given = pool();
    if (!given) return x;
    const PoolOptions o{.kernel = given->kernel, .stride = given->stride};
    return given->max ? max_pool(x, o) : avg_pool(x, o);
  }

  std::string unfit(at::IntArrayRef extents) const override {
    if (p.model_name == inception)
      for (const std::int64_t n : extents)
        if (n < inception_least)
          return "takes extents from " + std::to_string(inception_least) + " on: got " +
                 c10::str(extents);
    if (p.pool.is_null()) return "";
    const Pool given = pool().value_or(Pool{});
    for (const std::int64_t n : extents) {
      const std::int64_t features = (n + 31) / 32;
      const std::int64_t left = features - given.kernel;
      if (left < 0 || (!p.use_conv && left >= given.stride))
        return "has a pool of " + std::to_string(given.kernel) + " on features of " +
               std::to_string(features) +
               (left < 0 ? ", which are fewer"
                         : ", which leaves more "
                           "than one for its linear layer") +
               ": got " + c10::str(extents);
    }
    return "";
  }
};

const RegisterNetwork<TorchVisionFC> registered;

}  // namespace
}  // namespace sluice
