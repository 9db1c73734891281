#include "kernels/net/resnet.h"

#include <ATen/ATen.h>

#include <map>

namespace sluice {
namespace {

const std::map<int, ResNetKind>& kinds() {
  static const std::map<int, ResNetKind> all{
      {10, {{1, 1, 1, 1}, false}},  {18, {{2, 2, 2, 2}, false}},  {34, {{3, 4, 6, 3}, false}},
      {50, {{3, 4, 6, 3}, true}},   {101, {{3, 4, 23, 3}, true}}, {152, {{3, 8, 36, 3}, true}},
      {200, {{3, 24, 36, 3}, true}}};
  return all;
}

Value bare_conv(const Scope& s, const Value& x, std::int64_t out, const PerAxis& kernel,
                const PerAxis& stride, bool bias = false, std::int64_t groups = 1) {
  return conv(s, x, out,
              {.kernel = kernel,
               .stride = stride,
               .groups = groups,
               .bias = bias,
               .init = Init::kaiming_out()});
}

Value shortcut_a(const Value& x, std::int64_t out, std::int64_t stride) {
  const auto function = [=](In t) {
    at::Tensor y = t[0].detach();
    std::vector<std::int64_t> pads;  // last axis first, the channels' last
    for (std::int64_t a = y.dim() - 1; a > 1; --a) {
      y = y.slice(a, 0, y.size(a), stride);
      pads.insert(pads.end(), {0, 0});
    }
    pads.insert(pads.end(), {0, out - y.size(1)});
    return at::constant_pad_nd(y, pads);
  };
  return x.op("shortcut_a", function, {.channels = out, .attributes = {{"stride", stride}}});
}

Value residual_block(const Scope& s, const Value& x, std::int64_t planes, std::int64_t stride,
                     const ResNetOptions& o) {
  const bool deep = o.kind.bottleneck;
  const std::int64_t out = deep ? 4 * planes : planes;
  const std::int64_t wide = planes * o.width_per_group / 64 * o.groups;
  Value y = bare_conv(s / "conv1", x, wide, deep ? 1 : 3, deep ? 1 : stride);
  y = relu(norm(s / "bn1", y));
  y = bare_conv(s / "conv2", y, wide, 3, deep ? stride : 1, false, o.groups);
  y = norm(s / "bn2", y);
  if (deep) y = norm(s / "bn3", bare_conv(s / "conv3", relu(y), out, 1, 1));
  if (stride == 1 && x.channels == out) return relu(y + x);
  if (o.shortcut_a) return relu(y + shortcut_a(x, out, stride));
  const Scope beside = s / "downsample";
  return relu(y + norm(beside / 1, bare_conv(beside / 0, x, out, 1, stride, o.bias_downsample)));
}

}  // namespace

const std::vector<int>& resnet_layers() {
  static const std::vector<int> all = [] {
    std::vector<int> layers;
    for (const auto& [n, kind] : kinds()) layers.push_back(n);
    return layers;
  }();
  return all;
}

ResNetKind resnet_kind(int layers) { return kinds().at(layers); }

namespace {

struct VisionModel {
  const char* name;
  int layers;
  std::int64_t groups = 1, width_per_group = 64;
};
constexpr VisionModel known_vision_models[] = {{"resnet18", 18},
                                               {"resnet34", 34},
                                               {"resnet50", 50},
                                               {"resnet101", 101},
                                               {"resnet152", 152},
                                               {"resnext50_32x4d", 50, 32, 4},
                                               {"resnext101_32x8d", 101, 32, 8},
                                               {"resnext101_64x4d", 101, 64, 4},
                                               {"wide_resnet50_2", 50, 1, 128},
                                               {"wide_resnet101_2", 101, 1, 128}};

}  // namespace

const std::vector<std::string>& vision_models() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const VisionModel& m : known_vision_models) names.emplace_back(m.name);
    return names;
  }();
  return all;
}

ResNetOptions vision_model(const std::string& name) {
  ResNetOptions o{.conv1_stride = 2};
  for (const VisionModel& m : known_vision_models)
    if (name == m.name) {
      o.kind = resnet_kind(m.layers);
      o.groups = m.groups;
      o.width_per_group = m.width_per_group;
    }
  return o;
}

Values resnet_features(const Scope& s, const Value& image, const ResNetOptions& o) {
  const auto planes = [&](int level) {
    return static_cast<std::int64_t>(static_cast<double>(64 << level) * o.widen_factor);
  };
  Value x = bare_conv(s / o.names[0], image, planes(0), o.conv1_size, o.conv1_stride);
  x = norm(s / o.names[1], x, o.norm);
  x = o.act.kind == Act::Kind::relu ? relu(x) : act(s / o.names[2], x, o.act);
  Values features{x};
  if (o.max_pool) x = max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
  for (int level = 0; level < o.levels; ++level) {
    for (std::int64_t b = 0; b < o.kind.blocks[level]; ++b)
      x = residual_block(s / o.names[3 + level] / b, x, planes(level), level > 0 && b == 0 ? 2 : 1,
                         o);
    features.push_back(x);
  }
  return features;
}

}  // namespace sluice
