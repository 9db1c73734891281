#include "nodes/network/vista3d_points.h"

#include <ATen/ATen.h>

#include <numbers>

#include "kernels/net/generative.h"
#include "kernels/net/net.h"

namespace sluice {
namespace {

// Where voxels or points lie in an image, from 0 to 1 along each axis, as sines and cosines of
// random frequencies (Tancik et al. 2020). Inputs: an image, whose voxels become tokens [1, T, C];
// or an image and points [N, prompts, P, 3] in its voxels, which become [N * prompts, P, C].
struct PositionWaves final : Step {
  int frequencies = -1;  // a buffer [3, C / 2]
  std::int64_t channels = 0;
  std::string kind() const override { return "position_waves"; }
  std::vector<int> buffers() const override { return {frequencies}; }
  Size output_size(const std::vector<Size>& in) const override {
    if (in.size() > 1) return {in[1][0] * in[1][1], in[1][2], channels};
    return {1, c10::multiply_integers(at::IntArrayRef(in[0]).slice(2)), channels};
  }
  at::Tensor forward(Frame& f) const override {
    const at::Tensor& image = f.values[inputs[0]];
    const at::IntArrayRef extents = image.sizes().slice(2);
    const auto real = image.options().dtype(at::kFloat);
    at::Tensor places;
    if (inputs.size() > 1) {
      places = f.values[inputs[1]].to(real).flatten(0, 1);
    } else {
      std::vector<at::Tensor> axes;
      for (const std::int64_t n : extents) axes.push_back(at::arange(n, real));
      places = at::stack(at::meshgrid(axes, "ij"), -1).reshape({1, -1, 3});
    }
    places = (places + 0.5) / at::tensor(extents, at::kFloat).to(image.device());
    const at::Tensor angles =
        2 * std::numbers::pi * at::matmul(2 * places - 1, f.replica->buffers[frequencies]);
    return at::cat({angles.sin(), angles.cos()}, -1).to(f.net->compute);
  }
  void backward(Frame&, const at::Tensor&) const override {}
};

}  // namespace

Value prompt_maps(const Value& tokens, const Value& image) {
  const auto product = [](In t) {
    at::DimVector size(t[1].sizes());
    size[1] = t[0].size(1);
    return at::matmul(t[0], t[1].flatten(2)).view(size);
  };
  return tokens.op("maps", product, {.with = {image}, .axes = 3, .tokens = false});
}

Value PointHead::maps(const Scope& s, const Value& features, const Value& class_vector,
                      const Value& coords, const Value& labels) const {
  const NormOptions instance{.kind = Norm::instance, .affine = false};
  const Scope down = s / "feat_downsample";
  Value low = gelu(norm(down / 1, conv(down / 0, features, channels, {.stride = 2}), instance));
  low = norm(down / 4, conv(down / 3, low, channels), instance);
  unused(s);
  const Scope waves = s / "pe_layer";
  const int frequencies =
      waves.buffer("positional_encoding_gaussian_matrix", at::zeros({3, channels / 2}),
                   (waves / "positional_encoding_gaussian_matrix").name);
  const Value prompts =
      prompt_tokens(s, position_waves(frequencies, {features, coords}), labels, class_vector);
  const Value places = position_waves(frequencies, {low});
  const auto for_each_prompt = [](In t) {
    return t[0].flatten(2).transpose(1, 2).repeat_interleave(t[1].size(1), 0);
  };
  Value voxels = low.op("tokens", for_each_prompt, {.with = {labels}, .axes = 0, .tokens = true});
  Value mask = two_way(s / "transformer", prompts, voxels, places).op("mask_token", [](In t) {
    return t[0].narrow(1, 0, 1);
  });
  for (std::int64_t i = 0; i < 3; ++i) {
    mask = linear(s / "output_hypernetworks_mlps.layers" / i, mask, channels);
    if (i < 2) mask = relu(mask);
  }
  const auto as_image = [](In t) {
    at::DimVector size(t[1].sizes());
    size[0] = t[0].size(0);
    return t[0].transpose(1, 2).reshape(size);
  };
  const Scope up = s / "output_upscaling";
  Value image = voxels.op("image", as_image, {.with = {low}, .axes = 3, .tokens = false});
  image = conv(up / 0, image, channels, {.stride = 2, .output_padding = 1, .transposed = true});
  image = conv(up / 3, gelu(norm(up / 1, image, instance)), channels);
  return prompt_maps(mask, image)
      .op("by_sample",
          [](In t) {
            at::DimVector size(t[0].sizes());
            size[0] = t[1].size(0), size[1] = t[1].size(1);
            return t[0].reshape(size);
          },
          {.with = {labels}});
}

// What MONAI's state_dict has, and nothing computes with.
void PointHead::unused(const Scope& s) const {
  (s / "mask_downsample").parameter("weight", {2, 2, 3, 3, 3}, {}, 54);
  (s / "mask_downsample").parameter("bias", {2}, {}, 54);
  (s / "class_embeddings").parameter("weight", {n_classes, channels}, Init::normal(1));
}

Value PointHead::position_waves(int frequencies, const Values& inputs) const {
  auto step = std::make_unique<PositionWaves>();
  step->frequencies = frequencies;
  step->channels = channels;
  Value like = inputs[0];
  like.axes = 0;
  like.channels = channels;
  like.tokens = true;
  return like.builder->append(std::move(step), inputs, std::vector<bool>(inputs.size(), false),
                              like);
}

// Of each prompt [N * prompts, 1 + points + 1, C]: the mask's token, the points', and one that
// tells whether the class is known.
Value PointHead::prompt_tokens(const Scope& s, const Value& waves, const Value& labels,
                               const Value& class_vector) const {
  const auto row = [&](const char* name) {
    return (s / name).parameter("weight", {1, channels}, Init::normal(1));
  };
  const auto function = [last = last_supported](In t) {
    const at::Tensor label = t[1].flatten(0, 1).to(at::kLong).unsqueeze(-1);
    const at::Tensor unknown = (t[2] > last).flatten().view({-1, 1, 1});
    const at::Tensor &none = t[3], &outside = t[4], &inside = t[5], &special = t[6];
    const auto where = [&](const at::Tensor& holds, const at::Tensor& vector) {
      return holds.to(vector.dtype()) * vector;
    };
    const at::Tensor point = t[0] * (label != -1).to(t[0].dtype()) + where(label == -1, none) +
                             where((label == 0).logical_or(label == 2), outside) +
                             where((label == 1).logical_or(label == 3), inside) +
                             where((label == 2).logical_or(label == 3), special);
    return at::cat({t[7].expand({point.size(0), 1, -1}), point, at::where(unknown, t[8], t[9])}, 1);
  };
  return waves.op(
      "prompt_tokens", function,
      {.with = {labels, class_vector},
       .parameters = {row("not_a_point_embed"), row("point_embeddings.0"),
                      row("point_embeddings.1"), row("special_class_embed"), row("mask_tokens"),
                      row("zeroshot_embed"), row("supported_embed")}});
}

Value PointHead::attention(const Scope& s, const Value& q, const Value& k, const Value& v,
                           std::int64_t within) const {
  const Value y = attend(linear(s / "q_proj", q, within), linear(s / "k_proj", k, within),
                         linear(s / "v_proj", v, within), {.heads = 4});
  return linear(s / "out_proj", y, channels);
}

// Prompts read each other and the voxels, the voxels the prompts, twice over; then the prompts
// read the voxels once more. Returns the prompts, and changes the voxels.
Value PointHead::two_way(const Scope& s, const Value& prompts, Value& voxels,
                         const Value& places) const {
  const auto placed = [&] {
    return voxels.op("placed", [](In t) { return t[0] + t[1]; }, {.with = {places}});
  };
  Value x = prompts;
  for (std::int64_t i = 0; i < 2; ++i) {
    const Scope at = s / "layers" / i;
    const Value q = i == 0 ? x : x + prompts;
    const Value own = attention(at / "self_attn", q, q, x, channels);
    x = layer_norm(at / "norm1", i == 0 ? own : x + own);
    x = layer_norm(at / "norm2", x + attention(at / "cross_attn_token_to_image", x + prompts,
                                               placed(), voxels, channels / 2));
    x = layer_norm(at / "norm3", x + linear(at / "mlp.linear2",
                                            relu(linear(at / "mlp.linear1", x, 512)), channels));
    voxels = layer_norm(at / "norm4", voxels + attention(at / "cross_attn_image_to_token", placed(),
                                                         x + prompts, x, channels / 2));
  }
  return layer_norm(
      s / "norm_final_attn",
      x + attention(s / "final_attn_token_to_image", x + prompts, placed(), voxels, channels / 2));
}

}  // namespace sluice
