#include "kernels/net/ops.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/net/conv_1d.h"
#include "kernels/net/conv_step.h"
#include "kernels/net/dense_step.h"
#include "kernels/net/dropout_step.h"
#include "kernels/net/pointwise_step.h"
#include "kernels/net/pool_step.h"
#include "kernels/net/shape_step.h"
#include "kernels/net/torch_step.h"
#include "kernels/net/up.h"

namespace sluice {
namespace {

template <class T>
std::unique_ptr<T> step(const Scope& s = {}) {
  auto made = std::make_unique<T>();
  made->name = s.name;
  return made;
}

Value with_channels(Value v, std::int64_t channels) {
  v.channels = channels;
  return v;
}

Value vector_of(Value v, std::int64_t channels) {
  v.axes = 0;
  return with_channels(v, channels);
}

void require_equal_channels(const char* what, const Value& x, const Value& y) {
  if (x.channels == y.channels && x.tokens == y.tokens) return;
  throw Error(Exit::usage, std::string(what) + " of " + std::to_string(x.channels) + " and " +
                               std::to_string(y.channels) + " channels");
}

}  // namespace

// ---- convolution, norm, activation --------------------------------------------------------------

namespace {

// Those of signals, which have one axis.
Value by_torch(const Scope& s, const Value& x, std::int64_t out, const ConvOptions& o) {
  const auto kernel = o.kernel.over(x.axes), stride = o.stride.over(x.axes),
             dilation = o.dilation.over(x.axes);
  std::vector<std::int64_t> shape{o.transposed ? x.channels : out,
                                  (o.transposed ? out : x.channels) / o.groups};
  std::vector<std::int64_t> padding;
  std::int64_t fan_in = shape[1];
  for (std::size_t a = 0; a < kernel.size(); ++a) {
    shape.push_back(kernel[a]);
    fan_in *= kernel[a];
    padding.push_back((kernel[a] - 1) * dilation[a] / 2);
  }
  if (o.padding) padding = o.padding->over(x.axes);
  std::vector<int> parameters{s.parameter("weight", shape, o.init, fan_in)};
  if (o.bias) parameters.push_back(s.parameter("bias", {out}, o.bias_init, fan_in));
  const ConvSpec spec{
      o.transposed, x.channels, out, kernel, stride, padding, o.output_padding.over(x.axes),
      o.groups,     dilation};
  const auto function = [spec](In t) {
    const auto bias = t.size() > 2 ? std::optional<at::Tensor>(t[2]) : std::nullopt;
    return torch_convolution(t[0], t[1], bias, spec);
  };
  return x.op(conv_1d_kind, function,
              {.parameters = parameters,
               .channels = out,
               .name = s.name,
               .attributes = {{"out", out},
                              {"kernel", kernel},
                              {"stride", stride},
                              {"padding", padding},
                              {"dilation", dilation}}});
}

}  // namespace

Value conv(const Scope& s, const Value& x, std::int64_t out, const ConvOptions& o) {
  if (o.transposed && !o.dilation.is_one()) s.refuse("a transposed convolution has no dilation");
  if (x.axes == 0) s.refuse("a convolution takes an image, not vectors or tokens");
  if (x.channels % o.groups != 0 || out % o.groups != 0)
    s.refuse("the groups of a convolution divide its channels: " + std::to_string(o.groups) +
             " of " + std::to_string(x.channels) + " and " + std::to_string(out));
  if (x.axes == 1) return by_torch(s, x, out, o);
  auto made = step<ConvStep>(s);
  ConvSpec& spec = made->spec;
  spec = {o.transposed,          x.channels, out, o.kernel.over(x.axes),
          o.stride.over(x.axes), {},         {},  o.groups};
  spec.output_padding = o.output_padding.over(x.axes);
  if (!o.dilation.is_one()) spec.dilation = o.dilation.over(x.axes);
  if (o.padding) spec.padding = o.padding->over(x.axes);
  std::vector<std::int64_t> shape{o.transposed ? x.channels : out,
                                  (o.transposed ? out : x.channels) / o.groups};
  std::int64_t fan_in = shape[1];  // PyTorch's rule, for transposed convolutions too
  for (std::size_t a = 0; a < spec.kernel.size(); ++a) {
    const std::int64_t k = spec.kernel[a];
    if (!o.padding)
      spec.padding.push_back((k - 1) * (spec.dilation.empty() ? 1 : spec.dilation[a]) / 2);
    shape.push_back(k);
    fan_in *= k;
  }
  made->weight = s.parameter("weight", shape, o.init, fan_in);
  if (o.bias) made->bias = s.parameter("bias", {out}, o.bias_init, fan_in);
  made->normed = o.normed;
  return x.builder->append(std::move(made), {x}, {true}, with_channels(x, out));
}

Value norm(const Scope& s, const Value& x, const NormOptions& o) {
  const int gamma = o.affine ? s.parameter("weight", {x.channels}, o.weight_init) : -1;
  const int beta = o.affine ? s.parameter("bias", {x.channels}, Init::fill(0)) : -1;
  if (o.kind == Norm::group && x.channels % o.groups != 0)
    s.refuse("the groups of a group norm divide its channels: " + std::to_string(o.groups) +
             " of " + std::to_string(x.channels));
  auto made = step<NormActStep>(s);
  made->norm = o.kind;
  made->groups = o.groups;
  made->eps = o.eps;
  made->momentum = o.momentum;
  made->gamma = gamma;
  made->beta = beta;
  if (o.kind == Norm::batch) {
    made->running_mean = s.buffer("running_mean", at::zeros({x.channels}));
    made->running_var = s.buffer("running_var", at::ones({x.channels}));
    made->batches = s.buffer("num_batches_tracked", at::zeros({}, at::kLong));
  }
  return x.builder->append(std::move(made), {x}, {true}, x);
}

Value relu(const Value& x) { return x.builder->append(step<ReluStep>(), {x}, {false}, x); }

Value leaky_relu(const Value& x, double slope) {
  auto made = step<NormActStep>();
  made->fixed_slope = slope;
  return x.builder->append(std::move(made), {x}, {true}, x);
}

Value prelu(const Scope& s, const Value& x, double first) {
  auto made = step<NormActStep>(s);
  made->slope = s.parameter("weight", {1}, Init::fill(first));
  return x.builder->append(std::move(made), {x}, {true}, x);
}

Value prelu_channels(const Scope& s, const Value& x, double first) {
  return x.op(
      "prelu", [](In t) { return at::prelu(t[0], t[1]); },
      {.parameters = {s.parameter("weight", {x.channels}, Init::fill(first))}, .name = s.name});
}

// ---- dropout ------------------------------------------------------------------------------------

Value dropout(const Value& x, double p) {
  auto made = step<DropoutStep>();
  made->p = p;
  return x.builder->append(std::move(made), {x}, {false}, x);
}

Value dropout_channels(const Value& x, double p, std::uint64_t number) {
  auto made = step<MaskStep>();
  made->p = p;
  made->stream = number;
  return x.builder->append(std::move(made), {x}, {false}, x);
}

Value dropout_samples(const Value& x, double p) {
  auto made = step<MaskStep>();
  made->of = MaskStep::Of::sample;
  made->p = p;
  return x.builder->append(std::move(made), {x}, {false}, x);
}

Value normals(const Value& like, double at_rest) {
  auto made = step<NormalStep>();
  made->at_rest = at_rest;
  return like.builder->append(std::move(made), {like}, {false}, like);
}

Value chosen_tokens(const Value& x, std::int64_t count) {
  auto made = step<ChoiceStep>();
  made->count = count;
  Value like = vector_of(x, count);
  like.tokens = false;
  return x.builder->append(std::move(made), {x}, {false}, like);
}

// ---- sum, concatenation, shape ------------------------------------------------------------------

Value add(const Value& x, const Value& y) {
  require_equal_channels("the sum", x, y);
  return x.builder->append(step<AddStep>(), {x, y}, {false, false}, x);
}

Value concat(const Values& all) {
  const Value& x = all.at(0);
  if (all.size() == 1) return x;
  auto made = step<ConcatStep>();
  std::int64_t width = 0;
  for (const Value& v : all) {
    made->channels.push_back(v.channels);
    width += v.channels;
  }
  return x.builder->append(std::move(made), all, std::vector<bool>(all.size(), false),
                           with_channels(x, width));
}

namespace {

// Of a signal.
Value pool_1d(const Value& x, const PoolOptions& o, bool max) {
  const auto kernel = o.kernel.over(1), stride = o.stride.value_or(o.kernel).over(1),
             padding = o.padding.over(1);
  const auto function = [=](In t) {
    return max ? at::max_pool1d(t[0], kernel, stride, padding)
               : at::avg_pool1d(t[0], kernel, stride, padding);
  };
  return x.op(max ? "max_pool_1d" : "avg_pool_1d", function,
              {.attributes = {{"kernel", kernel}, {"stride", stride}, {"padding", padding}}});
}

// Of both LibTorch's backward asks for the input.
Value pool(const Value& x, const PoolOptions& o, bool max) {
  auto made = step<PoolStep>();
  made->max = max;
  made->kernel = o.kernel.over(x.axes);
  made->stride = o.stride.value_or(o.kernel).over(x.axes);
  made->padding = max ? o.padding.over(x.axes) : PerAxis(0).over(x.axes);
  return x.builder->append(std::move(made), {x}, {true}, x);
}

}  // namespace

Value max_pool(const Value& x, const PoolOptions& o) {
  return x.axes == 1 ? pool_1d(x, o, true) : pool(x, o, true);
}

// The zeros around an image count, as PyTorch has it.
Value avg_pool(const Value& x, const PoolOptions& o) {
  if (x.axes == 1) return pool_1d(x, o, false);
  const auto padding = o.padding.over(x.axes);
  std::vector<std::pair<std::int64_t, std::int64_t>> pads;
  for (const std::int64_t n : padding) pads.emplace_back(n, n);
  const bool any = std::any_of(padding.begin(), padding.end(), [](auto n) { return n > 0; });
  return pool(any ? padded(x, pads) : x, o, false);
}

Value global_avg_pool(const Value& x) {
  return x.builder->append(step<GlobalAvgPoolStep>(), {x}, {true}, vector_of(x, x.channels));
}

Value flatten(const Value& x, std::int64_t voxels) {
  return x.builder->append(step<FlattenStep>(), {x}, {true}, vector_of(x, x.channels * voxels));
}

Value doubled(const Value& x) {
  if (x.axes > 1) return x.builder->append(step<DoubleStep>(), {x}, {false}, x);
  const auto function = [](In t) { return linear_to(t[0], {2 * t[0].size(2)}, false); };
  return x.op("resize", function,
              {.attributes = {{"mode", "linear"}, {"factor", 2}, {"align_corners", false}}});
}

Value linear(const Scope& s, const Value& x, std::int64_t out, const LinearOptions& o) {
  if (x.axes > 0) s.refuse("a linear layer takes vectors or tokens, not an image");
  auto made = step<LinearStep>(s);
  made->in = x.channels;
  made->out = out;
  made->weight = s.parameter("weight", {out, x.channels}, o.init, x.channels);
  if (o.bias) made->bias = s.parameter("bias", {out}, o.bias_init, x.channels);
  return x.builder->append(std::move(made), {x}, {true}, with_channels(x, out));
}

// ---- LibTorch's ---------------------------------------------------------------------------------

Value Value::op(const std::string& kind, TorchFunction function) const {
  return op(kind, std::move(function), {});
}

Value Value::op(const std::string& kind, TorchFunction function, const OpOptions& o) const {
  auto made = std::make_unique<TorchStep>();
  made->function_name = kind;
  made->function = std::move(function);
  made->name = o.name;
  made->given = o.attributes;
  made->weights = o.parameters;
  for (const int w : o.parameters)
    made->weight_sizes.push_back(builder->parameter(w).tensor.sizes().vec());
  Values inputs{*this};
  inputs.insert(inputs.end(), o.with.begin(), o.with.end());
  Value like = *this;
  like.channels = o.channels.value_or(channels);
  like.axes = o.axes.value_or(axes);
  like.tokens = o.tokens.value_or(tokens);
  return builder->append(std::move(made), inputs, std::vector<bool>(inputs.size(), false), like);
}

Value gelu(const Value& x) {
  return x.op("gelu", [](In t) { return at::gelu(t[0]); });
}
Value silu(const Value& x) {
  return x.op("silu", [](In t) { return at::silu(t[0]); });
}
Value sigmoid(const Value& x) {
  return x.op("sigmoid", [](In t) { return at::sigmoid(t[0]); });
}

Value channel_means(const Value& x) {
  const int axes = x.axes;
  return x.op("mean", [axes](In t) {
    std::vector<std::int64_t> spatial;
    for (int a = 0; a < axes; ++a) spatial.push_back(a + 2);
    return t[0].mean(spatial, /*keepdim=*/true);
  });
}

Value product(const Value& x, const Value& y) {
  require_equal_channels("the product", x, y);
  const auto multiply = [](In t) {
    at::Tensor y = t[1];
    while (y.dim() < t[0].dim()) y = y.unsqueeze(-1);
    return t[0] * y;
  };
  return x.op("product", multiply, {.with = {y}});
}

Value layer_norm(const Scope& s, const Value& x) {
  const auto c = x.channels;
  return x.op("layer_norm", [c](In t) { return at::layer_norm(t[0], {c}, t[1], t[2]); },
              {.parameters = {s.parameter("weight", {c}, Init::fill(1)),
                              s.parameter("bias", {c}, Init::fill(0))},
               .name = s.name});
}

Value resized(const Value& x, const Value& like) {
  const auto nearest = [](In t) { return nearest_to(t[0], t[1].sizes().slice(2)); };
  return x.op("resize", nearest, {.with = {like}, .attributes = {{"mode", "nearest"}}});
}

Value padded(const Value& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& pads) {
  std::vector<std::int64_t> list;  // last axis first
  for (auto p = pads.rbegin(); p != pads.rend(); ++p) {
    list.push_back(p->first);
    list.push_back(p->second);
  }
  return x.op("pad", [list](In t) { return at::constant_pad_nd(t[0], list); },
              {.attributes = {{"pads", list}}});
}

}  // namespace sluice
