// segresnet: MONAI's SegResNet (monai.networks.nets.SegResNet 1.6.1) with its parameter names,
// order and defaults. Myronenko 2018, without the autoencoder's branch.
//
//   x ─ convInit ─ blocks ──────────────────────────── + ─ blocks ─ norm, ReLU, 1x1 ─▶ logits
//                    └─ stride 2 ─ blocks ──── + ─ blocks ─ 1x1, x2 ─┘
//                                    └─ stride 2 ─ blocks ─ 1x1, x2 ─┘
//
// Its forward is LibTorch's operations under autograd; only parameters and their first values come
// from Program, so that all networks are initialised by one rule.
#include <ATen/ATen.h>

#include "engine/random.h"
#include "nodes/model/program_network.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

struct SegResNet final : Network {
  struct Params {
    std::int64_t spatial_dims = 3, init_filters = 8, in_channels = 1, out_channels = 2;
    std::optional<double> dropout_prob;
    std::int64_t num_groups = 8;
    bool use_conv_final = true;
    Sizes blocks_down{1, 2, 2, 4}, blocks_up{1, 1, 1};
    std::string precision = "float32";
  };

  static Spec spec() {
    return Spec::network("segresnet",
                         "Residual encoder and decoder, 2-D or 3-D (MONAI's SegResNet).")
        .param("spatial_dims", &Params::spatial_dims, "2 or 3.")
        .range(2, 3)
        .param("init_filters", &Params::init_filters,
               "Channels of the first level, doubled by each.")
        .at_least(1)
        .param("in_channels", &Params::in_channels, "Channels of the image.")
        .at_least(1)
        .param("out_channels", &Params::out_channels, "Channels of the output, logits.")
        .at_least(1)
        .param("dropout_prob", &Params::dropout_prob,
               "Probability that a channel behind the first convolution becomes 0 in training.")
        .range(0, 0.99)
        .param("num_groups", &Params::num_groups, "Groups of the group norms.")
        .at_least(1)
        .param("use_conv_final", &Params::use_conv_final, "Norm, ReLU and 1x1 at the end.")
        .param("blocks_down", &Params::blocks_down, "Residual blocks of every level, top first.")
        .at_least(1)
        .length(1)
        .param("blocks_up", &Params::blocks_up, "And on the way up, bottom first.")
        .at_least(1)
        .length_of("blocks_down", -1)
        .param("precision", &Params::precision,
               "What convolutions and norms compute in; weights stay float32.")
        .choices(precisions);
  }

  explicit SegResNet(const Params& params) : p(params) {
    if (p.init_filters % p.num_groups != 0)
      throw Error(Exit::usage, "segresnet: init_filters is no multiple of num_groups");
    const std::size_t levels = p.blocks_down.size();
    if (p.blocks_up.size() + 1 != levels)
      throw Error(Exit::usage, "segresnet: blocks_up needs one entry fewer than blocks_down");
    convolution("convInit.conv", p.in_channels, filters(0), 3);
    for (std::size_t i = 0; i < levels; ++i) {
      const std::string level = "down_layers." + std::to_string(i) + ".";
      if (i > 0) convolution(level + "0.conv", filters(i - 1), filters(i), 3);
      for (std::int64_t b = 1; b <= p.blocks_down[i]; ++b)
        block(level + std::to_string(b) + ".", filters(i));
    }
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i)
      for (std::int64_t b = 0; b < p.blocks_up[i]; ++b)
        block("up_layers." + std::to_string(i) + "." + std::to_string(b) + ".", above(i));
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i)
      convolution("up_samples." + std::to_string(i) + ".0.conv", 2 * above(i), above(i), 1);
    if (!p.use_conv_final) return;
    norm("conv_final.0", filters(0));
    convolution("conv_final.2.conv", filters(0), p.out_channels, 1);
    store.parameter("conv_final.2.conv.bias", {p.out_channels}, Program::Init::conv, filters(0));
  }

  at::Tensor forward(const at::Tensor& image) override {
    check(image);
    move_to(image.device());
    at::Tensor x = conv(image.to(compute()), "convInit.conv");
    if (training && p.dropout_prob) x = dropped(x);
    std::vector<at::Tensor> skips;
    for (std::size_t i = 0; i < p.blocks_down.size(); ++i) {
      const std::string level = "down_layers." + std::to_string(i) + ".";
      if (i > 0) x = conv(x, level + "0.conv", 2);
      for (std::int64_t b = 1; b <= p.blocks_down[i]; ++b)
        x = residual(x, level + std::to_string(b) + ".");
      skips.push_back(x);
    }
    for (std::size_t i = 0; i < p.blocks_up.size(); ++i) {
      const std::string number = std::to_string(i);
      const at::Tensor& skip = skips[skips.size() - 2 - i];
      x = doubled(conv(x, "up_samples." + number + ".0.conv")) + skip;
      for (std::int64_t b = 0; b < p.blocks_up[i]; ++b)
        x = residual(x, "up_layers." + number + "." + std::to_string(b) + ".");
    }
    if (p.use_conv_final) x = conv(normed(x, "conv_final.0"), "conv_final.2.conv");
    return x.to(at::kFloat);
  }

  Named parameters() const override {
    Named out;
    for (const auto& q : store.parameters) out.emplace_back(q.name, q.tensor);
    return out;
  }
  void train(bool on) override { training = on; }
  void key_draws(std::uint64_t k) override { key = k; }
  void initialise(std::uint64_t seed) override { store.initialise(seed); }
  bool computes_in_half() const override { return compute() == at::kHalf; }

 private:
  std::int64_t filters(std::size_t level) const { return p.init_filters << level; }
  // Channels of the level that up-step i leads to.
  std::int64_t above(std::size_t i) const { return filters(p.blocks_up.size() - 1 - i); }
  at::ScalarType compute() const { return compute_type(p.precision); }

  void convolution(const std::string& name, std::int64_t from, std::int64_t to, std::int64_t side) {
    Sizes shape{to, from};
    shape.resize(static_cast<std::size_t>(2 + p.spatial_dims), side);
    store.parameter(name + ".weight", shape, Program::Init::conv,
                    from * (side == 1             ? 1
                            : p.spatial_dims == 3 ? 27
                                                  : 9));
  }
  void norm(const std::string& name, std::int64_t channels) {
    store.parameter(name + ".weight", {channels}, Program::Init::ones, 1);
    store.parameter(name + ".bias", {channels}, Program::Init::zeros, 1);
  }
  void block(const std::string& name, std::int64_t channels) {
    norm(name + "norm1", channels);
    norm(name + "norm2", channels);
    convolution(name + "conv1.conv", channels, channels, 3);
    convolution(name + "conv2.conv", channels, channels, 3);
  }

  void check(const at::Tensor& x) const {
    bool fits = x.dim() == p.spatial_dims + 2 && x.size(1) == p.in_channels;
    for (std::int64_t d = 2; fits && d < x.dim(); ++d)
      fits = x.size(d) % (std::int64_t{1} << (p.blocks_down.size() - 1)) == 0;
    if (fits) return;
    throw DataError("segresnet takes [N, " + std::to_string(p.in_channels) + "] and " +
                    std::to_string(p.spatial_dims) + " spatial axes that are multiples of " +
                    std::to_string(1 << (p.blocks_down.size() - 1)) + ", got " +
                    c10::str(x.sizes()));
  }

  const at::Tensor* find(const std::string& name) const {
    for (const auto& q : store.parameters)
      if (q.name == name) return &q.tensor;
    return nullptr;
  }
  at::Tensor weight(const std::string& name) const { return find(name)->to(compute()); }

  at::Tensor conv(const at::Tensor& x, const std::string& name, std::int64_t stride = 1) const {
    const at::Tensor w = weight(name + ".weight");
    std::optional<at::Tensor> bias;
    if (find(name + ".bias")) bias = weight(name + ".bias");
    const std::int64_t pad = w.size(2) / 2;
    return p.spatial_dims == 3 ? at::conv3d(x, w, bias, {stride, stride, stride}, {pad, pad, pad})
                               : at::conv2d(x, w, bias, {stride, stride}, {pad, pad});
  }
  at::Tensor normed(const at::Tensor& x, const std::string& name) const {
    return at::relu(
        at::group_norm(x, p.num_groups, weight(name + ".weight"), weight(name + ".bias")));
  }
  at::Tensor residual(const at::Tensor& x, const std::string& name) const {
    const at::Tensor y = conv(normed(x, name + "norm1"), name + "conv1.conv");
    return conv(normed(y, name + "norm2"), name + "conv2.conv") + x;
  }
  at::Tensor doubled(const at::Tensor& x) const {
    Sizes size;
    for (std::int64_t d = 2; d < x.dim(); ++d) size.push_back(2 * x.size(d));
    return p.spatial_dims == 3 ? at::upsample_trilinear3d(x, size, false)
                               : at::upsample_bilinear2d(x, size, false);
  }

  // Whole channels, by draws of the pass's own key.
  at::Tensor dropped(const at::Tensor& x) const {
    Sizes shape{x.size(0), x.size(1)};
    at::Tensor keep = at::empty(shape, at::kFloat);
    auto* v = keep.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < keep.numel(); ++i)
      v[i] = unit_float(philox(static_cast<std::uint64_t>(i), 0, key).v[0]) < *p.dropout_prob
                 ? 0
                 : static_cast<float>(1 / (1 - *p.dropout_prob));
    shape.resize(static_cast<std::size_t>(x.dim()), 1);
    return x * keep.view(shape).to(x.options());
  }

  void move_to(const at::Device& device) {
    for (auto& q : store.parameters)
      if (q.tensor.device() != device) q.tensor.set_data(q.tensor.detach().to(device));
  }

  Params p;
  Program store;
  bool training = false;
  std::uint64_t key = 0;
};

const Register<SegResNet> registered;

}  // namespace
}  // namespace sluice
