// The vision transformer of MONAI's ViT: patches as tokens, layers of attention and perceptrons.
#include <ATen/ATen.h>

#include <cmath>

#include "kernels/net/blocks.h"

namespace sluice {
namespace {

// [N, T, 3 * C] holds queries, keys and values, each by head: which one, [N, heads, T, C / heads].
at::Tensor heads_of(const at::Tensor& qkv, std::int64_t heads, std::int64_t which) {
  const std::int64_t n = qkv.size(0), tokens = qkv.size(1), each = qkv.size(2) / 3 / heads;
  return qkv.view({n, tokens, 3, heads, each}).select(2, which).transpose(1, 2);
}

// softmax(Q K') V in two steps, with the dropout of the shares between them.
Value attention(const Scope& s, const Value& x, const VitOptions& o) {
  const std::int64_t heads = o.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(o.hidden / heads));
  const Value qkv = linear(s / "qkv", x, 3 * o.hidden, {.bias = o.qkv_bias});
  const auto shares_of = [=](In t) {  // [N, heads * T, T]
    const at::Tensor q = heads_of(t[0], heads, 0), k = heads_of(t[0], heads, 1);
    return at::softmax(at::matmul(q, k.transpose(2, 3)) * scale, -1).flatten(1, 2);
  };
  const auto weighted = [=](In t) {
    const at::Tensor v = heads_of(t[0], heads, 2);
    const at::Tensor shares = t[1].unflatten(1, {heads, -1});
    return at::matmul(shares, v).transpose(1, 2).flatten(2);
  };
  const Attributes attributes{{"heads", heads}};
  Value shares = qkv.op("attention_shares", shares_of, {.attributes = attributes});
  if (o.dropout > 0) shares = dropout(shares, o.dropout);
  Value y = qkv.op("attention", weighted,
                   {.with = {shares}, .channels = o.hidden, .attributes = attributes});
  y = linear(s / "out_proj", y, o.hidden);
  return o.dropout > 0 ? dropout(y, o.dropout) : y;
}

Value perceptron(const Scope& s, const Value& x, const VitOptions& o) {
  Value y = gelu(linear(s / "linear1", x, o.mlp));
  if (o.dropout > 0) y = dropout(y, o.dropout);
  y = linear(s / "linear2", y, o.hidden);
  return o.dropout > 0 ? dropout(y, o.dropout) : y;
}

}  // namespace

Value transformer_block(const Scope& s, const Value& x, const VitOptions& o) {
  Value y = x + attention(s / "attn", layer_norm(s / "norm1", x), o);
  y = y + perceptron(s / "mlp", layer_norm(s / "norm2", y), o);
  // MONAI makes this norm for a cross attention that is not there.
  (s / "norm_cross_attn").parameter("weight", {o.hidden}, Init::fill(1));
  (s / "norm_cross_attn").parameter("bias", {o.hidden}, Init::fill(0));
  return y;
}

namespace {

// Sine and cosine of every axis' places at falling frequencies: [1, patches, hidden].
at::Tensor sincos(const Scope& s, const VitOptions& o) {
  const std::vector<std::int64_t> grid = o.grid();
  const auto axes = static_cast<std::int64_t>(grid.size()), each = o.hidden / (2 * axes);
  if (o.hidden % (2 * axes) != 0)
    s.refuse("hidden_size is no multiple of " + std::to_string(2 * axes) + ", as sincos needs");
  std::vector<at::Tensor> places, parts;
  for (const std::int64_t n : grid) places.push_back(at::arange(n, at::kFloat));
  const at::Tensor omega = at::pow(10000.0, at::arange(each, at::kFloat) / each).reciprocal();
  places = at::meshgrid(places, "ij");
  std::swap(places[0], places[1]);  // MONAI's order: the second axis first
  for (const at::Tensor& place : places) {
    const at::Tensor angles = at::outer(place.flatten(), omega);
    parts.insert(parts.end(), {angles.sin(), angles.cos()});
  }
  return at::cat(parts, 1).unsqueeze(0);
}

// A patch's voxels, then its channels, as einops' "(p1 p2 p3 c)".
at::Tensor patches(const at::Tensor& x, const std::vector<std::int64_t>& patch) {
  std::vector<std::int64_t> split{x.size(0), x.size(1)}, order{0}, within;
  const std::int64_t axes = x.dim() - 2;
  for (std::int64_t a = 0; a < axes; ++a) {
    split.push_back(x.size(a + 2) / patch[a]);
    split.push_back(patch[a]);
    order.push_back(2 + 2 * a);
    within.push_back(3 + 2 * a);
  }
  order.insert(order.end(), within.begin(), within.end());
  order.push_back(1);
  return x.reshape(split).permute(order).flatten(1, axes).flatten(2);
}

}  // namespace

Value add_positions(const Scope& s, const std::string& name, const Value& x, const VitOptions& o) {
  std::int64_t count = 1;
  for (const std::int64_t n : o.grid()) count *= n;
  if (o.pos_embed_type == "sincos") {
    const at::Tensor where = sincos(s, o);
    s.buffer(name, where);  // a constant, for state_dict
    return x.op("add_positions", [where](In t) { return t[0] + where.to(t[0].options()); },
                {.name = s.name});
  }
  const int where = s.parameter(name, {1, count, o.hidden},
                                o.pos_embed_type == "none" ? Init::fill(0) : Init::normal(0.02));
  return x.op("add_positions", [](In t) { return t[0] + t[1]; },
              {.parameters = {where}, .name = s.name});
}

Value patch_embedding(const Scope& s, const Value& x, const VitOptions& o) {
  std::int64_t voxels = 1;
  for (std::size_t a = 0; a < o.img_size.size(); ++a) voxels *= o.patch[a];
  Value y;
  if (o.proj_type == "perceptron") {
    y = x.op("patches", [patch = o.patch](In t) { return patches(t[0], patch); },
             {.channels = x.channels * voxels, .axes = 0, .tokens = true});
    y = linear(s / "patch_embeddings.1", y, o.hidden,
               {.init = Init::normal(0.02), .bias_init = Init::fill(0)});
  } else {
    y = conv(s / "patch_embeddings", x, o.hidden,
             {.kernel = o.patch, .stride = o.patch, .padding = 0});
    y = to_tokens(y);
  }
  y = add_positions(s, "position_embeddings", y, o);
  return o.dropout > 0 ? dropout(y, o.dropout) : y;
}

std::vector<std::int64_t> VitOptions::grid() const {
  std::vector<std::int64_t> all = img_size;
  for (std::size_t a = 0; a < all.size(); ++a) all[a] /= patch[a];
  return all;
}

Vit vit(const Scope& s, const Value& x, const VitOptions& o) {
  if (o.hidden % o.heads != 0) s.refuse("hidden_size is no multiple of num_heads");
  for (std::size_t a = 0; a < o.img_size.size(); ++a)
    if (o.img_size[a] < o.patch[a] ||
        (o.proj_type == "perceptron" && o.img_size[a] % o.patch[a] != 0))
      s.refuse("img_size is no multiple of the patches' extents");
  Vit v{patch_embedding(s / "patch_embedding", x, o), {}};
  if (o.class_token)
    v.out = v.out.op("class_token",
                     [](In t) {
                       return at::cat({t[1].expand({t[0].size(0), 1, -1}), t[0]}, 1);
                     },
                     {.parameters = {s.parameter("cls_token", {1, 1, o.hidden}, Init::fill(0))}});
  for (std::int64_t i = 0; i < o.layers; ++i) {
    v.out = transformer_block(s / "blocks" / i, v.out, o);
    v.hidden.push_back(v.out);
  }
  v.out = layer_norm(s / "norm", v.out);
  return v;
}

Value to_tokens(const Value& image) {
  return image.op("tokens", [](In t) { return t[0].flatten(2).transpose(1, 2); },
                  {.axes = 0, .tokens = true});
}

Value to_image(const Value& tokens, const std::vector<std::int64_t>& grid) {
  const auto function = [grid](In t) {
    std::vector<std::int64_t> size{t[0].size(0), t[0].size(2)};
    size.insert(size.end(), grid.begin(), grid.end());
    return t[0].transpose(1, 2).reshape(size);
  };
  return tokens.op(
      "to_image", function,
      {.axes = static_cast<int>(grid.size()), .tokens = false, .attributes = {{"grid", grid}}});
}

}  // namespace sluice
