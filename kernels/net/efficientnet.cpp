#include "kernels/net/efficientnet.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice {
namespace {

struct Model {
  double width, depth;
  std::int64_t image_size;
  double dropout, drop_connect;
};
// Known before the types are registered, which name them as choices.
constexpr std::pair<std::string_view, Model> models[]{
    {"efficientnet-b0", {1.0, 1.0, 224, 0.2, 0.2}}, {"efficientnet-b1", {1.0, 1.1, 240, 0.2, 0.2}},
    {"efficientnet-b2", {1.1, 1.2, 260, 0.3, 0.2}}, {"efficientnet-b3", {1.2, 1.4, 300, 0.3, 0.2}},
    {"efficientnet-b4", {1.4, 1.8, 380, 0.4, 0.2}}, {"efficientnet-b5", {1.6, 2.2, 456, 0.4, 0.2}},
    {"efficientnet-b6", {1.8, 2.6, 528, 0.5, 0.2}}, {"efficientnet-b7", {2.0, 3.1, 600, 0.5, 0.2}},
    {"efficientnet-b8", {2.2, 3.6, 672, 0.5, 0.2}}, {"efficientnet-l2", {4.3, 5.3, 800, 0.5, 0.2}}};

struct Stage {
  std::int64_t repeats, kernel, stride, expand, in, out;
};
constexpr std::array<Stage, 7> stages{{{1, 3, 1, 1, 32, 16},
                                       {2, 3, 2, 6, 16, 24},
                                       {2, 5, 2, 6, 24, 40},
                                       {3, 3, 2, 6, 40, 80},
                                       {3, 5, 1, 6, 80, 112},
                                       {4, 5, 2, 6, 112, 192},
                                       {1, 3, 1, 6, 192, 320}}};

Value swish_norm(const Scope& s, const Value& x, const NormOptions& o) {
  return silu(norm(s, x, o));
}
// TensorFlow's padding "same" for images of this extent, which becomes that of the result.
Value same_conv(const Scope& s, const Value& x, std::int64_t out, std::int64_t kernel,
                std::int64_t stride, std::int64_t& extent, std::int64_t groups = 1) {
  const std::int64_t after = (extent + stride - 1) / stride;
  const std::int64_t pad = std::max<std::int64_t>((after - 1) * stride + kernel - extent, 0);
  extent = after;
  const bool even = pad % 2 == 0;
  const Value y =
      even ? x : padded(x, {static_cast<std::size_t>(x.axes), {pad / 2, pad - pad / 2}});
  return conv(s, y, out,
              {.kernel = kernel,
               .stride = stride,
               .padding = even ? pad / 2 : 0,
               .groups = groups,
               .bias = false,
               .init = Init::kaiming_out()});
}
Value block(const Scope& s, const Value& x, const Stage& b, std::int64_t& extent, double drop,
            const NormOptions& o) {
  const std::int64_t wide = x.channels * b.expand;
  Value y = x;
  if (b.expand != 1)
    y = swish_norm(s / "_bn0", same_conv(s / "_expand_conv", y, wide, 1, 1, extent), o);
  y = same_conv(s / "_depthwise_conv", y, wide, b.kernel, b.stride, extent, wide);
  y = squeeze_excite(s, swish_norm(s / "_bn1", y, o), std::max<std::int64_t>(1, x.channels / 4),
                     Init::kaiming_out());
  y = norm(s / "_bn2", same_conv(s / "_project_conv", y, b.out, 1, 1, extent), o);
  if (b.stride > 1 || x.channels != b.out) return y;
  return (drop > 0 ? dropout_samples(y, drop) : y) + x;
}

}  // namespace

const std::vector<std::string>& efficientnet_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const auto& [name, model] : models) names.emplace_back(name);
    return names;
  }();
  return all;
}

EfficientNetValues efficientnet(const Scope& s, const Value& image, const std::string& name,
                                std::int64_t classes, const NormOptions& norm) {
  Model m{};
  for (const auto& [one, model] : models)
    if (one == name) m = model;
  const auto round = [&](std::int64_t filters) {
    const double wide = static_cast<double>(filters) * m.width;
    const auto near = std::max<std::int64_t>(8, static_cast<std::int64_t>(wide + 4) / 8 * 8);
    return static_cast<double>(near) < 0.9 * wide ? near + 8 : near;
  };
  const auto repeated = [&](const Stage& stage) {
    return static_cast<std::int64_t>(std::ceil(m.depth * static_cast<double>(stage.repeats)));
  };
  std::int64_t blocks = 0, index = 0, extent = m.image_size;
  for (const Stage& stage : stages) blocks += repeated(stage);
  Value x = same_conv(s / "_conv_stem", image, round(32), 3, 2, extent);
  x = swish_norm(s / "_bn0", x, norm);
  EfficientNetValues all;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (std::int64_t r = 0; r < repeated(stages[i]); ++r, ++index) {
      const double drop = m.drop_connect * static_cast<double>(index) / static_cast<double>(blocks);
      Stage stage = stages[i];
      if (r > 0) stage.stride = 1;
      stage.out = round(stage.out);
      x = block(s / "_blocks" / static_cast<std::int64_t>(i) / index, x, stage, extent, drop, norm);
    }
    // The last at its extents.
    if (i + 1 == stages.size() || stages[i + 1].stride > 1) all.features.push_back(x);
  }
  x = swish_norm(s / "_bn1", same_conv(s / "_conv_head", x, round(1280), 1, 1, extent), norm);
  x = dropout(global_avg_pool(x), m.dropout);
  all.logits =
      linear(s / "_fc", x, classes, {.init = Init::uniform_out(), .bias_init = Init::fill(0)});
  return all;
}

}  // namespace sluice
