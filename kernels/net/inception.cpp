#include "kernels/net/inception.h"

#include <ATen/ATen.h>

#include "kernels/net/constant.h"

namespace sluice {
namespace {

constexpr Init drawn = {Init::Rule::normal, 0.1};
constexpr double eps = 1e-3;

struct Cells {
  PerAxis kernel = 1, stride = 1;
  bool same = true;  // padded so that extents stay
};
// BasicConv2d.
Value cells(const Scope& s, const Value& x, std::int64_t out, const Cells& o = {}) {
  ConvOptions c{.kernel = o.kernel, .stride = o.stride, .bias = false, .init = drawn};
  if (!o.same) c.padding = 0;
  return relu(norm(s / "bn", conv(s / "conv", x, out, c), {.eps = eps}));
}

Value pool_branch(const Scope& s, const Value& x, std::int64_t out) {
  const Value mean = avg_pool(x, {.kernel = 3, .stride = 1, .padding = 1});
  return cells(s / "branch_pool", mean, out);
}

Value halved(const Value& x) { return max_pool(x, {.kernel = 3, .stride = 2}); }

Value block_a(const Scope& s, const Value& x, std::int64_t pooled) {
  const Value one = cells(s / "branch1x1", x, 64);
  const Value five = cells(s / "branch5x5_2", cells(s / "branch5x5_1", x, 48), 64, {5});
  Value three = cells(s / "branch3x3dbl_2", cells(s / "branch3x3dbl_1", x, 64), 96, {3});
  three = cells(s / "branch3x3dbl_3", three, 96, {3});
  return concat({one, five, three, pool_branch(s, x, pooled)});
}

Value block_b(const Scope& s, const Value& x) {
  const Value three = cells(s / "branch3x3", x, 384, {3, 2, false});
  Value twice = cells(s / "branch3x3dbl_2", cells(s / "branch3x3dbl_1", x, 64), 96, {3});
  twice = cells(s / "branch3x3dbl_3", twice, 96, {3, 2, false});
  return concat({three, twice, halved(x)});
}

Value block_c(const Scope& s, const Value& x, std::int64_t c) {
  const Value one = cells(s / "branch1x1", x, 192);
  Value seven = cells(s / "branch7x7_2", cells(s / "branch7x7_1", x, c), c, {{1, 7}});
  seven = cells(s / "branch7x7_3", seven, 192, {{7, 1}});
  Value twice = cells(s / "branch7x7dbl_2", cells(s / "branch7x7dbl_1", x, c), c, {{7, 1}});
  twice = cells(s / "branch7x7dbl_4", cells(s / "branch7x7dbl_3", twice, c, {{1, 7}}), c, {{7, 1}});
  twice = cells(s / "branch7x7dbl_5", twice, 192, {{1, 7}});
  return concat({one, seven, twice, pool_branch(s, x, 192)});
}

Value block_d(const Scope& s, const Value& x) {
  const Value three =
      cells(s / "branch3x3_2", cells(s / "branch3x3_1", x, 192), 320, {3, 2, false});
  Value seven = cells(s / "branch7x7x3_2", cells(s / "branch7x7x3_1", x, 192), 192, {{1, 7}});
  seven = cells(s / "branch7x7x3_3", seven, 192, {{7, 1}});
  seven = cells(s / "branch7x7x3_4", seven, 192, {3, 2, false});
  return concat({three, seven, halved(x)});
}

Value block_e(const Scope& s, const Value& x) {
  const auto both = [&](const std::string& name, const Value& y) {
    return concat(
        {cells(s / (name + "a"), y, 384, {{1, 3}}), cells(s / (name + "b"), y, 384, {{3, 1}})});
  };
  const Value one = cells(s / "branch1x1", x, 320);
  const Value three = both("branch3x3_2", cells(s / "branch3x3_1", x, 384));
  const Value twice = both(
      "branch3x3dbl_3", cells(s / "branch3x3dbl_2", cells(s / "branch3x3dbl_1", x, 448), 384, {3}));
  return concat({one, three, twice, pool_branch(s, x, 192)});
}

// The parameters of a classifier that is not computed.
void unread(const Scope& s, std::int64_t in) {
  const auto conv = [](const Scope& at, std::int64_t from, std::int64_t to, std::int64_t kernel) {
    (at / "conv").parameter("weight", {to, from, kernel, kernel}, drawn);
    (at / "bn").parameter("weight", {to}, Init::fill(1));
    (at / "bn").parameter("bias", {to}, Init::fill(0));
    (at / "bn").buffer("running_mean", at::zeros({to}));
    (at / "bn").buffer("running_var", at::ones({to}));
    (at / "bn").buffer("num_batches_tracked", at::zeros({}, at::kLong));
  };
  conv(s / "conv0", in, 128, 1);
  conv(s / "conv1", 128, in, 5);
  (s / "fc").parameter("weight", {1000, in}, Init::normal(0.001));
  (s / "fc").parameter("bias", {1000}, Init{}, in);
}

Value as_imagenet(const Value& image) {
  const auto numbers = [](double r, double g, double b) {
    return NetConstant(at::tensor({r, g, b}, at::kDouble).view({1, 3, 1, 1}));
  };
  const auto function = [means = numbers(0.485, 0.456, 0.406),
                         deviations = numbers(0.229, 0.224, 0.225)](In t) {
    const at::Tensor mean = means.like(t[0].options()), deviation = deviations.like(t[0].options());
    return t[0] * (deviation / 0.5) + (mean - 0.5) / 0.5;
  };
  return image.op("transform_input", function);
}

}  // namespace

Value inception_v3_features(const Scope& s, const Value& image, bool transform_input,
                            bool keeps_axes) {
  Value x = transform_input ? as_imagenet(image) : image;
  x = cells(s / "Conv2d_1a_3x3", x, 32, {3, 2, false});
  x = cells(s / "Conv2d_2a_3x3", x, 32, {3, 1, false});
  x = halved(cells(s / "Conv2d_2b_3x3", x, 64, {3}));
  x = cells(s / "Conv2d_3b_1x1", x, 80);
  x = halved(cells(s / "Conv2d_4a_3x3", x, 192, {3, 1, false}));
  x = block_a(s / "Mixed_5b", x, 32);
  x = block_a(s / "Mixed_5c", x, 64);
  x = block_a(s / "Mixed_5d", x, 64);
  x = block_b(s / "Mixed_6a", x);
  x = block_c(s / "Mixed_6b", x, 128);
  x = block_c(s / "Mixed_6c", x, 160);
  x = block_c(s / "Mixed_6d", x, 160);
  x = block_c(s / "Mixed_6e", x, 192);
  unread(s / "AuxLogits", x.channels);
  x = block_d(s / "Mixed_7a", x);
  x = block_e(s / "Mixed_7b", x);
  x = block_e(s / "Mixed_7c", x);
  return dropout(keeps_axes ? channel_means(x) : global_avg_pool(x), 0.5);
}

}  // namespace sluice
