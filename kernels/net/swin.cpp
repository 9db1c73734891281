#include "kernels/net/swin.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "kernels/net/blocks.h"
#include "kernels/net/constant.h"

namespace sluice {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t product_of(const Sizes& all) {
  std::int64_t product = 1;
  for (const auto n : all) product *= n;
  return product;
}

// How an image of these extents is cut: an axis no longer than the window is one window, and is
// not shifted.
struct Windows {
  Sizes extents, window, shift, count;
  bool shifted = false, pads = false;
  Sizes pad;  // as constant_pad_nd takes it, for [N, ..., C]

  Windows(const at::Tensor& image, const Sizes& wished, bool shifting) : pad{0, 0} {
    extents = image.sizes().slice(2).vec();
    for (std::size_t a = 0; a < extents.size(); ++a) {
      const bool one = extents[a] <= wished[a];
      window.push_back(one ? extents[a] : wished[a]);
      shift.push_back(one || !shifting ? 0 : wished[a] / 2);
      count.push_back((extents[a] + window[a] - 1) / window[a]);
      shifted = shifted || shift[a] > 0;
      pads = pads || extents[a] % window[a] != 0;
    }
    for (std::size_t a = extents.size(); a-- > 0;) {
      pad.push_back(0);
      pad.push_back(count[a] * window[a] - extents[a]);
    }
  }
  std::int64_t tokens() const { return product_of(window); }

  // [N, ..., C] of padded extents, window by window, and back.
  at::Tensor cut(const at::Tensor& x) const {
    Sizes split{x.size(0)}, order{0};
    for (std::size_t a = 0; a < count.size(); ++a) {
      split.insert(split.end(), {count[a], window[a]});
      order.push_back(static_cast<std::int64_t>(1 + 2 * a));
    }
    for (std::size_t a = 0; a < count.size(); ++a)
      order.push_back(static_cast<std::int64_t>(2 + 2 * a));
    order.push_back(static_cast<std::int64_t>(split.size()));
    split.push_back(x.size(-1));
    return x.reshape(split).permute(order).reshape({x.size(0), -1, x.size(-1)});
  }
  at::Tensor joined(const at::Tensor& x) const {
    const std::size_t axes = count.size();
    Sizes split{x.size(0)}, order{0}, whole{x.size(0)};
    split.insert(split.end(), count.begin(), count.end());
    split.insert(split.end(), window.begin(), window.end());
    for (std::size_t a = 0; a < axes; ++a) {
      order.push_back(static_cast<std::int64_t>(1 + a));
      order.push_back(static_cast<std::int64_t>(1 + axes + a));
      whole.push_back(count[a] * window[a]);
    }
    order.push_back(static_cast<std::int64_t>(split.size()));
    split.push_back(x.size(-1));
    whole.push_back(x.size(-1));
    return x.reshape(split).permute(order).reshape(whole);
  }
  at::Tensor rolled(const at::Tensor& x, std::int64_t sign) const {
    if (!shifted) return x;
    Sizes by, axes;
    for (std::size_t a = 0; a < shift.size(); ++a) {
      by.push_back(sign * shift[a]);
      axes.push_back(static_cast<std::int64_t>(a + 1));
    }
    return at::roll(x, by, axes);
  }
  // [windows, T, T]: -100 between voxels that the shift brought together.
  at::Tensor mask(const at::TensorOptions& options) const {
    at::Tensor region = at::zeros({1}, options);
    for (std::size_t a = 0; a < count.size(); ++a) {
      const std::int64_t n = count[a] * window[a];
      const at::Tensor i = at::arange(n, options.dtype(at::kFloat));
      const at::Tensor part = i.ge(static_cast<double>(n - window[a])).to(options.dtype()) +
                              i.ge(static_cast<double>(n - shift[a])).to(options.dtype());
      region = (region.unsqueeze(-1) * 3 + part);
    }
    const at::Tensor by_window = cut(region.unsqueeze(-1)).reshape({-1, tokens()});
    return by_window.unsqueeze(1).ne(by_window.unsqueeze(2)).to(options.dtype()) * -100;
  }
};

at::Tensor image_of(const at::Tensor& tokens, const Sizes& extents) {
  Sizes size{tokens.size(0)};
  size.insert(size.end(), extents.begin(), extents.end());
  size.push_back(tokens.size(2));
  return tokens.reshape(size);
}

// Row of the bias table for each pair of a window's voxels.
at::Tensor relative_position_index(const Sizes& window) {
  at::Tensor index = at::zeros({1, 1}, at::kLong);
  std::int64_t tokens = product_of(window), after = tokens;
  const at::Tensor voxel = at::arange(tokens, at::kLong);
  for (const std::int64_t extent : window) {
    after /= extent;
    const at::Tensor at_axis = voxel.floor_divide(after).remainder(extent);
    index = index * (2 * extent - 1) + (at_axis.unsqueeze(1) - at_axis.unsqueeze(0)) + extent - 1;
  }
  return index;
}

// [N, windows * T, 3 C] to [N, windows, heads, T, C / heads]: queries, keys or values.
at::Tensor heads_within(const at::Tensor& qkv, std::int64_t tokens, std::int64_t heads,
                        std::int64_t which) {
  return qkv.view({qkv.size(0), -1, tokens, 3, heads, qkv.size(2) / 3 / heads})
      .select(3, which)
      .transpose(2, 3);
}

struct Block {
  const SwinOptions& o;
  const Value& image;
  bool shifting;

  Value dropped(const Value& x) const { return o.drop > 0 ? dropout(x, o.drop) : x; }

  // MONAI's WindowAttention.
  Value attention(const Scope& s, const Value& x) const {
    const auto heads = o.heads, each = x.channels / heads;
    const auto window = o.window;
    const bool shift = shifting;
    const double scale = 1 / std::sqrt(static_cast<double>(each));
    std::int64_t rows = 1;
    for (const auto n : window) rows *= 2 * n - 1;
    const int table =
        s.parameter("relative_position_bias_table", {rows, heads}, Init::normal(0.02));
    const at::Tensor positions = relative_position_index(window);
    s.buffer("relative_position_index", positions);  // for state_dict
    const NetConstant index(positions);
    const Value qkv = linear(s / "qkv", x, 3 * x.channels, {.bias = o.qkv_bias});
    const auto shares_of = [=](In t) {  // [N, windows * heads * T, T]
      const Windows w(t[1], window, shift);
      const auto n = w.tokens();
      const at::Tensor q = heads_within(t[0], n, heads, 0), k = heads_within(t[0], n, heads, 1);
      const at::Tensor at = index.on(t[2].device()).narrow(0, 0, n).narrow(1, 0, n);
      at::Tensor shares = at::matmul(q * scale, k.transpose(-2, -1)) +
                          t[2].index_select(0, at.flatten()).view({n, n, heads}).permute({2, 0, 1});
      if (w.shifted) shares = shares + w.mask(shares.options()).unsqueeze(1);
      return at::softmax(shares, -1).flatten(1, 3);
    };
    const auto weighted = [=](In t) {
      const auto n = Windows(t[2], window, shift).tokens();
      const at::Tensor v = heads_within(t[0], n, heads, 2);
      const at::Tensor shares = t[1].view({t[0].size(0), -1, heads, n, n});
      return at::matmul(shares, v).transpose(2, 3).reshape({t[0].size(0), -1, heads * each});
    };
    const Attributes attributes{{"heads", heads}, {"window", window}, {"shifted", shift}};
    Value shares = qkv.op("window_attention_shares", shares_of,
                          {.with = {image}, .parameters = {table}, .name = s.name});
    if (o.attn_drop > 0) shares = dropout(shares, o.attn_drop);
    const Value y =
        qkv.op("window_attention", weighted,
               {.with = {shares, image}, .channels = x.channels, .attributes = attributes});
    return dropped(linear(s / "proj", y, x.channels));
  }

  Value operator()(const Scope& s, const Value& x, double drop_path) const {
    const auto window = o.window;
    const bool shift = shifting;
    const auto cut = [=](In t) {
      const Windows w(t[1], window, shift);
      const at::Tensor image = image_of(t[0], w.extents);
      return w.cut(w.rolled(w.pads ? at::constant_pad_nd(image, w.pad) : image, -1));
    };
    const auto joined = [=](In t) {
      const Windows w(t[1], window, shift);
      at::Tensor image = w.rolled(w.joined(t[0]), 1);
      for (std::size_t a = 0; a < w.extents.size(); ++a)
        image = image.narrow(static_cast<std::int64_t>(a + 1), 0, w.extents[a]);
      return image.reshape({image.size(0), -1, image.size(-1)});
    };
    Value y = layer_norm(s / "norm1", x).op("windows", cut, {.with = {image}});
    y = attention(s / "attn", y).op("windows_joined", joined, {.with = {image}});
    y = x + (drop_path > 0 ? dropout_samples(y, drop_path) : y);
    const auto wide = static_cast<std::int64_t>(static_cast<double>(x.channels) * o.mlp_ratio);
    Value z = gelu(linear(s / "mlp.linear1", layer_norm(s / "norm2", y), wide));
    z = dropped(linear(s / "mlp.linear2", dropped(z), x.channels));
    return y + (drop_path > 0 ? dropout_samples(z, drop_path) : z);
  }
};

// Which voxel of 2 x 2 (x 2) comes when; MONAI's two kinds of merging differ in three dimensions.
std::vector<std::array<int, 3>> merging_order(int axes, bool v2) {
  if (axes == 2) return {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  if (!v2)
    return {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}};
  return {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}};
}

// MONAI's PatchMerging and PatchMergingV2; extents are even.
Value merged(const Scope& s, const Value& tokens, const Value& image, bool v2) {
  const auto order = merging_order(image.axes, v2);
  const auto together = [order](In t) {
    const auto image = image_of(t[0], t[1].sizes().slice(2).vec());
    std::vector<at::Tensor> parts;
    for (const auto& first : order) {
      at::Tensor part = image;
      for (std::int64_t a = 0; a < image.dim() - 2; ++a)
        part = part.slice(a + 1, first[static_cast<std::size_t>(a)], std::nullopt, 2);
      parts.push_back(part);
    }
    return at::cat(parts, -1).flatten(1, -2);
  };
  const auto halved = [](In t) {
    Sizes size{t[0].size(0), t[0].size(2)};
    for (const auto n : t[1].sizes().slice(2)) size.push_back(n / 2);
    return t[0].transpose(1, 2).reshape(size);
  };
  const auto count = static_cast<std::int64_t>(order.size());
  Value y = tokens.op("merge", together, {.with = {image}, .channels = count * tokens.channels});
  y = linear(s / "reduction", layer_norm(s / "norm", y), 2 * tokens.channels, {.bias = false});
  return y.op("to_image", halved, {.with = {image}, .axes = image.axes, .tokens = false});
}

}  // namespace

Value swin_stage(const Scope& s, const Value& image, const SwinOptions& o) {
  if (image.channels % o.heads != 0) s.refuse("a number of heads does not divide its channels");
  Value x = to_tokens(image);
  for (std::int64_t b = 0; b < o.depth; ++b)
    x = Block{o, image, b % 2 == 1}(s / "blocks" / b, x,
                                    o.drop_path.at(static_cast<std::size_t>(b)));
  return merged(s / "downsample", x, image, o.merging_v2);
}

Value channel_norm(const Value& image) {
  const auto c = image.channels;
  return image.op("channel_norm",
                  [c](In t) { return at::layer_norm(t[0].movedim(1, -1), {c}).movedim(-1, 1); });
}

Value channel_norm(const Scope& s, const Value& image, double eps) {
  const auto c = image.channels;
  const std::int64_t axis = image.tokens ? 2 : 1;
  const auto function = [=](In t) {
    return at::layer_norm(t[0].movedim(axis, -1), {c}, t[1], t[2], eps).movedim(-1, axis);
  };
  return image.op("channel_norm", function,
                  {.parameters = {s.parameter("weight", {c}, Init::fill(1)),
                                  s.parameter("bias", {c}, Init::fill(0))},
                   .name = s.name});
}

}  // namespace sluice
