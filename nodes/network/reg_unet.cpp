// reg_unet, global_net, local_net: MONAI's RegUNet, GlobalNet and LocalNet (monai.networks.nets
// 1.6.1) with their parameter names and defaults: displacements that register images. Hu et al.
// 2018.
//
//   x ─ conv, residual ─ pool ─ ... ─ bottom ─ up + skip ─ ... ─ a convolution of each level asked
//                                      │                         for, resized, their mean
//                                      └─ GlobalNet: an affine transform's displacements
#include <algorithm>

#include "kernels/net/up.h"
#include "nodes/network/affine_head.h"
#include "nodes/network/built_network.h"

namespace sluice {
namespace {

struct RegParams : ImageNet {
  std::int64_t num_channel_initial = 0;
  std::string out_kernel_initializer = "kaiming_uniform";
  std::optional<std::string> out_activation;
  bool pooling = true, concat_skip = false;
  RegParams() { out_channels = 3; }
};

template <class Params>
Spec reg_spec(std::string name, std::string doc) {
  Spec s = image_net<Params>(std::move(name), std::move(doc), true,
                             "Channels of the output: a displacement along each axis.");
  declared(s, "out_channels").required = false;
  return s
      .param("num_channel_initial", &Params::num_channel_initial,
             "Channels of the first level, doubled by each.")
      .at_least(1)
      .required()
      .param("out_kernel_initializer", &Params::out_kernel_initializer,
             "How the last convolutions begin; kaiming_uniform is normal, as in MONAI.")
      .choices({"kaiming_uniform", "zeros"})
      .param("out_activation", &Params::out_activation, "Activation of the output; null: none.")
      .choices(act_names())
      .param("pooling", &Params::pooling, "Levels halve by pools, and not by convolutions.")
      .param("concat_skip", &Params::concat_skip, "Skips are beside what they join, not added.");
}

// What the three are made of.
struct Reg {
  const RegParams& p;
  std::vector<std::int64_t> kernels;  // of each level and the bottom
  std::int64_t depth = 0;
  bool local = false;  // LocalNet's bottom
  std::function<Value(const Scope&, const Value&, std::int64_t)> up;

  static Value conv_block(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel,
                          bool halves = false) {
    ConvolutionOptions c{.kernel_size = kernel, .bias = false, .init = Init::kaiming()};
    c.adn = {.norm = NormOptions{}, .act = Act{Act::Kind::relu}};
    if (halves) {
      c.strides = 2;
      c.padding = 0;
    }
    return convolution(s, x, out, c);
  }
  static Value deconv(const Scope& s, const Value& x, std::int64_t out) {
    ConvolutionOptions c{.strides = 2, .bias = false};
    c.adn = {.norm = NormOptions{}, .act = Act{Act::Kind::relu}};
    c.is_transposed = true;
    return convolution(s, x, out, c);
  }
  static Value both(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel) {
    const Value first = conv_block(s / 0, x, out, kernel);
    Value y = first;
    for (std::int64_t i = 0; i < 2; ++i) {
      const Scope layers = s / 1 / "layers" / i, norms = s / 1 / "norms" / i;
      y = norm(norms, conv(layers / "conv", y, out, {.kernel = kernel, .bias = false}));
      y = relu(i == 0 ? y : y + first);
    }
    return y;
  }
  // Bottom first, up to level `least`.
  Values decoded(const Scope& s, const Value& image, std::int64_t least) const {
    require_odd_kernels(kernels);
    Values skips;
    Value x = image;
    for (std::int64_t d = 0; d < depth; ++d) {
      const auto channels = p.num_channel_initial << d;
      skips.push_back(
          both(s / "encode_convs" / d, x, channels, kernels[static_cast<std::size_t>(d)]));
      x = p.pooling ? max_pool(skips.back())
                    : conv_block(s / "encode_pools" / d / "layer", skips.back(), channels, 2, true);
    }
    const Scope bottom = s / "bottom_block";
    const auto wide = p.num_channel_initial << depth, kernel = kernels.back();
    Values all{local ? conv_block(bottom, x, wide, kernel) : both(bottom, x, wide, kernel)};
    for (std::int64_t d = depth - 1, i = 0; d >= least; --d, ++i) {
      const auto channels = p.num_channel_initial << d;
      const Value y = up(s / "decode_deconvs" / i, all.back(), channels);
      const Value& skip = skips[static_cast<std::size_t>(d)];
      all.push_back(
          both(s / "decode_convs" / i, p.concat_skip ? concat({y, skip}) : y + skip, channels, 3));
    }
    return all;
  }
  Value extracted(const Scope& s, const Value& image, const Values& all,
                  const std::vector<std::int64_t>& levels) const {
    const Init init = p.out_kernel_initializer == "zeros" ? Init::fill(0) : Init::kaiming();
    Values parts;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const Scope layer = s / "output_block.layers" / static_cast<std::int64_t>(i);
      Value y = conv(layer / "conv", all[static_cast<std::size_t>(depth - levels[i])],
                     p.out_channels, {.kernel = 3, .bias = false, .init = init});
      if (p.out_activation) y = act(layer / "adn.A", y, act_of(*p.out_activation));
      parts.push_back(resized(y, image));
    }
    Value sum = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
    const double share = 1.0 / static_cast<double>(parts.size());
    return parts.size() == 1 ? sum : sum.op("mean", [share](In t) { return t[0] * share; });
  }
  std::string unfit(at::IntArrayRef extents) const {
    return unless_multiples(extents, std::int64_t{1} << depth);
  }
};

std::vector<std::int64_t> each_level(const std::vector<std::int64_t>& kernels, std::int64_t depth) {
  return each_of("encode_kernel_sizes", kernels, static_cast<std::size_t>(depth + 1));
}

template <class Params>
Spec deep_spec(Spec s) {
  return s.param("depth", &Params::depth, "Times that the extents are halved.")
      .at_least(1)
      .required()
      .param("encode_kernel_sizes", &Params::encode_kernel_sizes,
             "On the way down: one number, or one a level and one of the bottom.")
      .at_least(1);
}

struct RegUNet final : ImageNetwork<RegUNet> {
  struct Params : RegParams {
    std::int64_t depth = 0;
    std::vector<std::int64_t> encode_kernel_sizes{3};
    std::optional<std::vector<std::int64_t>> extract_levels;
  } p;
  static constexpr int least_axes = 1;
  static Spec spec() {
    return deep_spec<Params>(
               reg_spec<Params>("reg_unet", "U-Net for registration (MONAI's RegUNet)."))
        .param("extract_levels", &Params::extract_levels,
               "Levels whose displacements are averaged, depth among them; null: depth alone.")
        .at_least(0);
  }
  Values build(const Scope& s, const Value& image) const {
    const auto levels = p.extract_levels.value_or(std::vector<std::int64_t>{p.depth});
    if (levels.empty() || *std::max_element(levels.begin(), levels.end()) != p.depth)
      refuse("the deepest of extract_levels must be depth, " + std::to_string(p.depth));
    const Reg r{p, each_level(p.encode_kernel_sizes, p.depth), p.depth, false, Reg::deconv};
    const auto least = *std::min_element(levels.begin(), levels.end());
    return {r.extracted(s, image, r.decoded(s, image, least), levels)};
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return Reg{p, {}, p.depth, false, {}}.unfit(extents);
  }
};

struct GlobalNet final : ImageNetwork<GlobalNet> {
  struct Params : RegParams {
    std::vector<std::int64_t> image_size;
    std::int64_t depth = 0;
    std::vector<std::int64_t> encode_kernel_sizes{3};
    bool save_theta = false;
  } p;
  static Spec spec() {
    return deep_spec<Params>(
               reg_spec<Params>("global_net",
                                "Affine registration (MONAI's GlobalNet): displacements in voxels; "
                                "out_channels must be spatial_dims."))
        .param("image_size", &Params::image_size, "Extents of the images.")
        .at_least(1)
        .required()
        .param("save_theta", &Params::save_theta, "Not read: nothing is kept.");
  }
  Values build(const Scope& s, const Value& image) const {
    require_per_axis("image_size", p.image_size.size(), image.axes);
    if (p.out_channels != image.axes) refuse("out_channels must be spatial_dims");
    const Reg r{p, each_level(p.encode_kernel_sizes, p.depth), p.depth, false, Reg::deconv};
    require_multiples("image_size", p.image_size, std::int64_t{1} << p.depth);
    std::int64_t voxels = 1;
    for (const auto n : p.image_size) voxels *= n >> p.depth;
    const Value x = r.decoded(s, image, p.depth)[0];
    return {affine_head(s / "output_block", flatten(x, voxels), p.image_size)};
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return unless_made_for(extents, "image_size", p.image_size);
  }
};

struct LocalNet final : ImageNetwork<LocalNet> {
  struct Params : RegParams {
    std::vector<std::int64_t> extract_levels;
    bool use_additive_sampling = true;
    std::string mode = "nearest";
    std::optional<bool> align_corners;
  } p;
  static constexpr int least_axes = 1;
  static Spec spec() {
    return reg_spec<Params>("local_net", "Local registration (MONAI's LocalNet).")
        .param("extract_levels", &Params::extract_levels,
               "Levels whose displacements are averaged; the largest is the network's depth.")
        .at_least(0)
        .length(1)
        .required()
        .param("use_additive_sampling", &Params::use_additive_sampling,
               "What is upsampled counts beside its convolution.")
        .param("mode", &Params::mode, "How it is upsampled.")
        .choices({"nearest", "bilinear", "trilinear"})
        .param("align_corners", &Params::align_corners, "Of bilinear and trilinear.");
  }
  Values build(const Scope& s, const Value& image) const {
    const Reg r{
        p, kernels(), depth(), true,
        [this](const Scope& s, const Value& x, std::int64_t out) { return twice(s, x, out); }};
    const auto least = *std::min_element(p.extract_levels.begin(), p.extract_levels.end());
    return {r.extracted(s, image, r.decoded(s, image, least), p.extract_levels)};
  }
  std::string unfit(at::IntArrayRef extents) const override {
    return Reg{p, {}, depth(), false, {}}.unfit(extents);
  }

 private:
  std::int64_t depth() const {
    return *std::max_element(p.extract_levels.begin(), p.extract_levels.end());
  }
  std::vector<std::int64_t> kernels() const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(depth() + 1), 3);
    all[0] = 7;
    return all;
  }
  Value twice(const Scope& s, const Value& x, std::int64_t out) const {
    if (!p.use_additive_sampling) return Reg::deconv(s, x, out);
    const Value y = magnified(x, 2, p.mode != "nearest", p.align_corners.value_or(false));
    const auto halves = [](In t) {
      const auto parts = t[0].chunk(2, 1);
      return parts[0] + parts[1];
    };
    return Reg::deconv(s / "deconv", x, out) +
           y.op("sum_of_halves", halves, {.channels = x.channels / 2});
  }
};

const RegisterNetwork<RegUNet> registered;
const RegisterNetwork<GlobalNet> registered_global;
const RegisterNetwork<LocalNet> registered_local;

}  // namespace
}  // namespace sluice
