#include "kernels/net/generative.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/net/up.h"

namespace sluice {

// ---- attention ----------------------------------------------------------------------------------

namespace {

// [N, T, C] as [N, heads, T, C / heads].
at::Tensor by_head(const at::Tensor& x, std::int64_t heads) {
  return x.unflatten(2, {heads, -1}).transpose(1, 2);
}

}  // namespace

Value attend(const Value& q, const Value& k, const Value& v, const AttendOptions& o) {
  const std::int64_t heads = o.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(q.channels / heads));
  const auto shares_of = [=, wide = o.in_float32](In t) {  // [N, heads * T, T']
    at::Tensor q = by_head(t[0], heads), k = by_head(t[1], heads);
    if (wide) q = q.to(at::kFloat), k = k.to(at::kFloat);
    return at::softmax(at::matmul(q, k.transpose(2, 3)) * scale, -1).flatten(1, 2);
  };
  const auto weighted = [=](In t) {
    const at::Tensor shares = t[0].unflatten(1, {heads, -1});
    return at::matmul(shares, by_head(t[1], heads)).transpose(1, 2).flatten(2);
  };
  const Attributes attributes{{"heads", heads}};
  Value shares = q.op("attention_shares", shares_of, {.with = {k}, .attributes = attributes});
  if (o.dropout > 0) shares = dropout(shares, o.dropout);
  return shares.op("attention", weighted,
                   {.with = {v}, .channels = v.channels, .attributes = attributes});
}

namespace {

// The tokens as an image, added to it.
Value beside(const Value& image, const Value& tokens) {
  return image.op("add_tokens",
                  [](In t) { return t[0] + t[1].transpose(1, 2).reshape(t[0].sizes()); },
                  {.with = {tokens}});
}

std::int64_t heads_of(const Scope& s, std::int64_t channels, std::int64_t head_channels) {
  if (head_channels < 1 || channels % head_channels != 0)
    s.refuse("a head's " + std::to_string(head_channels) + " channels must divide " +
             std::to_string(channels));
  return channels / head_channels;
}

// SABlock on tokens, of `bias` where its queries, keys and values have one.
struct SelfAttention {
  AttendOptions attend;
  bool bias = false, include_fc = true, use_combined_linear = false;
};
Value self_attention(const Scope& s, const Value& x, const SelfAttention& o) {
  const std::int64_t c = x.channels;
  const LinearOptions bias{.bias = o.bias};
  Value q, k, v;
  if (o.use_combined_linear) {
    const Value qkv = linear(s / "qkv", x, 3 * c, bias);
    const auto part = [&](std::int64_t i) {
      return qkv.op("part", [i, c](In t) { return t[0].narrow(2, i * c, c); }, {.channels = c});
    };
    q = part(0), k = part(1), v = part(2);
  } else {
    q = linear(s / "to_q", x, c, bias);
    k = linear(s / "to_k", x, c, bias);
    v = linear(s / "to_v", x, c, bias);
  }
  Value y = attend(q, k, v, o.attend);
  if (o.include_fc) y = linear(s / "out_proj", y, c);
  return o.attend.dropout > 0 ? dropout(y, o.attend.dropout) : y;
}

}  // namespace

Value spatial_attention(const Scope& s, const Value& x, const SpatialAttentionOptions& o) {
  const std::int64_t heads = o.head_channels == 0 ? 1 : heads_of(s, x.channels, o.head_channels);
  return beside(x, self_attention(s / "attn", to_tokens(norm(s / "norm", x, o.norm)),
                                  {.attend = {.heads = heads},
                                   .bias = true,
                                   .include_fc = o.include_fc,
                                   .use_combined_linear = o.use_combined_linear}));
}

// ---- SPADE --------------------------------------------------------------------------------------

Value spade(const Scope& s, const Value& x, const NormOptions& n, const SpadeOptions& o) {
  // MONAI's convolutions for scale and shift have its default norm.
  const Adn normed{.norm = NormOptions{.kind = Norm::instance, .affine = false}};
  ConvolutionOptions c{.kernel_size = o.kernel_size};
  c.adn.act = Act{Act::Kind::leaky_relu, 0.01};
  const Value read = convolution(s / "mlp_shared", resized(o.seg, x), o.hidden, c);
  c.adn = normed;
  const Value gamma = convolution(s / "mlp_gamma", read, x.channels, c);
  const Value beta = convolution(s / "mlp_beta", read, x.channels, c);
  return norm(s / "param_free_norm", x, n)
      .op("modulate", [](In t) { return t[0] * (1 + t[1]) + t[2]; }, {.with = {gamma, beta}});
}

// ---- the diffusion U-Net ------------------------------------------------------------------------

namespace {

// Cosines and sines of the times at falling frequencies, after Vaswani et al. 2017.
at::Tensor waves(const at::Tensor& times, std::int64_t channels) {
  const std::int64_t half = channels / 2;
  const at::Tensor frequencies = at::exp(at::arange(half, times.options().dtype(at::kFloat)) *
                                         (-std::log(10000.0) / static_cast<double>(half)));
  const at::Tensor angles = times.to(at::kFloat).unsqueeze(1) * frequencies;
  const at::Tensor both = at::cat({at::cos(angles), at::sin(angles)}, 1);
  return channels % 2 == 0 ? both : at::constant_pad_nd(both, {0, 1});
}

const Init zero = Init::fill(0);

struct Diffusion {
  const Value& times;
  const Conditions& conditions;
  const DiffusionOptions& o;

  // Of the way up, where there is a map of labels.
  Value normed(const Scope& s, const Value& x, bool up) const {
    return up && conditions.spade ? spade(s, x, o.norm, *conditions.spade) : norm(s, x, o.norm);
  }
  enum class Size { same, halved, doubled };
  Value residual(const Scope& s, const Value& given, std::int64_t out, bool up,
                 Size size = Size::same) const {
    Value x = given, h = silu(normed(s / "norm1", x, up));
    const auto sized = [&](const Value& v) {
      return size == Size::same     ? v
             : size == Size::halved ? avg_pool(v)
                                    : magnified(v, 2, false, false);
    };
    x = sized(x);
    h = conv(s / "conv1.conv", sized(h), out);
    const Value added = linear(s / "time_emb_proj", silu(times), out);
    h = h.op("add_channels",
             [](In t) {
               at::Tensor y = t[1];
               while (y.dim() < t[0].dim()) y = y.unsqueeze(-1);
               return t[0] + y;
             },
             {.with = {added}});
    h = conv(s / "conv2.conv", silu(normed(s / "norm2", h, up)), out,
             {.init = zero, .bias_init = zero});
    return h + (x.channels == out ? x : conv(s / "skip_connection.conv", x, out, {.kernel = 1}));
  }
  // The way up of the SPADE network knows neither include_fc nor use_combined_linear.
  bool plain(bool up) const { return up && conditions.spade; }
  Value attention(const Scope& s, const Value& x, std::int64_t head_channels, bool up) const {
    const bool include_fc = plain(up) || o.include_fc,
               combined = !plain(up) && o.use_combined_linear;
    if (!o.with_conditioning)
      return spatial_attention(s, x, {o.norm, head_channels, include_fc, combined});
    const AttendOptions attends{heads_of(s, x.channels, head_channels), o.dropout_cattn,
                                o.upcast_attention};
    Value t =
        to_tokens(conv(s / "proj_in.conv", norm(s / "norm", x, o.norm), x.channels, {.kernel = 1}));
    for (std::int64_t l = 0; l < o.transformer_num_layers; ++l)
      t = transformer(s / "transformer_blocks" / l, t, attends, include_fc, combined);
    const Value y =
        x.op("to_image", [](In in) { return in[1].transpose(1, 2).reshape(in[0].sizes()); },
             {.with = {t}});
    return x +
           conv(s / "proj_out.conv", y, x.channels, {.kernel = 1, .init = zero, .bias_init = zero});
  }
  Value transformer(const Scope& s, const Value& x, const AttendOptions& attends, bool include_fc,
                    bool combined) const {
    const std::int64_t c = x.channels;
    const auto dropped = [&](const Value& v) {
      return o.dropout_cattn > 0 ? dropout(v, o.dropout_cattn) : v;
    };
    Value y =
        x + self_attention(
                s / "attn1", layer_norm(s / "norm1", x),
                {.attend = attends, .include_fc = include_fc, .use_combined_linear = combined});
    const Value q = layer_norm(s / "norm2", y);
    const Value from = conditions.context.value_or(q);
    const LinearOptions bare{.bias = false};
    const Value read =
        attend(linear(s / "attn2.to_q", q, c, bare), linear(s / "attn2.to_k", from, c, bare),
               linear(s / "attn2.to_v", from, c, bare), attends);
    y = y + dropped(linear(s / "attn2.out_proj", read, c));
    const Value gated = linear(s / "ff.linear1", layer_norm(s / "norm3", y), 8 * c)
                            .op("geglu",
                                [](In t) {
                                  const auto parts = t[0].chunk(2, -1);
                                  return parts[0] * at::gelu(parts[1]);
                                },
                                {.channels = 4 * c});
    return y + dropped(linear(s / "ff.linear2", dropped(gated), c));
  }
};

}  // namespace

Value embedded_times(const Scope& s, const Conditions& c, const DiffusionOptions& o) {
  const std::int64_t channels = o.channels[0];
  Value y = c.timesteps.op("waves", [channels](In t) { return waves(t[0], channels); },
                           {.channels = channels});
  const auto embedded = [&](const std::string& layer, const Value& x) {
    const Value hidden = silu(linear(s / layer / 0, x, 4 * channels));
    return linear(s / layer / 2, hidden, 4 * channels);
  };
  y = embedded("time_embed", y);
  if (c.class_labels) {
    const int table =
        s.parameter("class_embedding.weight", {*o.num_class_embeds, 4 * channels}, Init::normal(1));
    y = y + c.class_labels->op("embedding",
                               [](In t) { return at::embedding(t[1], t[0].to(at::kLong)); },
                               {.parameters = {table}, .channels = y.channels});
  }
  Values all{y};
  for (const auto& [layer, numbers] : c.further) all.push_back(embedded(layer, numbers));
  return concat(all);
}

Values diffusion_down(const Scope& s, const Value& x, const Value& times, const Conditions& c,
                      const DiffusionOptions& o) {
  const Diffusion d{times, c, o};
  Values skips{x};
  for (std::size_t level = 0; level < o.channels.size(); ++level) {
    const Scope at = s / "down_blocks" / static_cast<std::int64_t>(level);
    const std::int64_t out = o.channels[level];
    for (std::int64_t b = 0; b < o.num_res_blocks[level]; ++b) {
      Value y = d.residual(at / "resnets" / b, skips.back(), out, false);
      if (o.attention_levels[level])
        y = d.attention(at / "attentions" / b, y, o.num_head_channels[level], false);
      skips.push_back(y);
    }
    if (level + 1 == o.channels.size()) break;
    skips.push_back(
        o.resblock_updown
            ? d.residual(at / "downsampler", skips.back(), out, false, Diffusion::Size::halved)
            : conv(at / "downsampler.op.conv", skips.back(), out, {.stride = 2}));
  }
  return skips;
}

Value diffusion_middle(const Scope& s, const Value& x, const Value& times, const Conditions& c,
                       const DiffusionOptions& o) {
  const Diffusion d{times, c, o};
  const Scope at = s / "middle_block";
  Value y = d.residual(at / "resnet_1", x, x.channels, false);
  y = d.attention(at / "attention", y, o.num_head_channels.back(), false);
  return d.residual(at / "resnet_2", y, x.channels, false);
}

Value diffusion_up(const Scope& s, const Value& x, Values skips, const Value& times,
                   const Conditions& c, const DiffusionOptions& o) {
  const Diffusion d{times, c, o};
  Value y = x;
  const std::size_t levels = o.channels.size();
  for (std::size_t i = 0; i < levels; ++i) {
    const std::size_t level = levels - 1 - i;
    const Scope at = s / "up_blocks" / static_cast<std::int64_t>(i);
    const std::int64_t out = o.channels[level];
    for (std::int64_t b = 0; b <= o.num_res_blocks[level]; ++b) {
      y = d.residual(at / "resnets" / b, concat({y, skips.back()}), out, true);
      skips.pop_back();
      if (o.attention_levels[level])
        y = d.attention(at / "attentions" / b, y, o.num_head_channels[level], true);
    }
    if (level == 0) break;
    y = o.resblock_updown
            ? d.residual(at / "upsampler", y, out, false, Diffusion::Size::doubled)
            : conv(at / "upsampler.postconv.conv", magnified(y, 2, false, false), out);
  }
  return y;
}

}  // namespace sluice
