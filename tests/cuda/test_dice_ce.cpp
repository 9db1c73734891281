// DiceCE on the device against the formulas written out in double.
#include <cmath>

#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

struct Expected {
  double loss;
  std::vector<double> grad;  // [samples][voxels][classes]
};

// z and t by sample, voxel and class; the gradient by the chain rule, class by class.
Expected expected(const DiceCeRule& r, const std::vector<double>& z,
                  const std::vector<std::uint8_t>& label, int samples, int voxels, double scale) {
  const int C = r.classes, first = r.include_background ? 0 : 1, groups = r.batch ? 1 : samples;
  std::vector<double> p(z.size());
  std::vector<double> P(groups * C), I(groups * C), T(groups * C);
  double entropy = 0, weight = 0;
  for (int v = 0; v < samples * voxels; ++v) {
    double sum = 0;
    for (int c = 0; c < C; ++c) sum += std::exp(z[v * C + c]);
    for (int c = 0; c < C; ++c) {
      const int g = (r.batch ? 0 : v / voxels) * C + c;
      const double q = p[v * C + c] = std::exp(z[v * C + c]) / sum, t = label[v] == c;
      P[g] += r.squared_pred ? q * q : q;
      I[g] += q * t;
      T[g] += t;
    }
    entropy -= r.ce_weight[label[v]] * std::log(p[v * C + label[v]]);
    weight += r.ce_weight[label[v]];
  }
  Expected e{0, std::vector<double>(z.size())};
  const double each = r.reduction == Reduce::mean ? 1.0 / (groups * (C - first)) : 1,
               ce = r.reduction == Reduce::mean ? weight : 1;
  std::vector<double> by_p(P.size()), by_i(P.size());
  for (int g = 0; g < groups * C; ++g) {
    if (g % C < first) continue;
    const double k = r.jaccard ? 2 : 1, w = each * r.dice_weight[g % C];
    const double area = k * (P[g] + T[g] - (r.jaccard ? I[g] : 0)) + r.smooth_dr;
    const double top = 2 * I[g] + r.smooth_nr;
    e.loss += r.lambda_dice * w * (1 - top / area);
    by_p[g] = r.lambda_dice * w * top * k / (area * area);
    by_i[g] = r.lambda_dice * w * (-2 / area - (r.jaccard ? top * k / (area * area) : 0));
  }
  e.loss += r.lambda_ce * entropy / ce;
  for (int v = 0; v < samples * voxels; ++v) {
    const int g = (r.batch ? 0 : v / voxels) * C;
    for (int c = 0; c < C; ++c)
      for (int k = 0; k < C; ++k) {
        const double q = p[v * C + k], t = label[v] == k;
        const double dp = by_p[g + k] * (r.squared_pred ? 2 * q : 1) + by_i[g + k] * t;
        e.grad[v * C + c] += scale * dp * q * ((k == c) - p[v * C + c]);
      }
    for (int c = 0; c < C; ++c)
      e.grad[v * C + c] +=
          scale * r.lambda_ce / ce * r.ce_weight[label[v]] * (p[v * C + c] - (label[v] == c));
  }
  return e;
}

template <class T>
void check(const DiceCeRule& r, int samples, int voxels, bool channels_last, double limit) {
  const int C = r.classes;
  std::vector<std::uint8_t> label;
  for (float v : test::numbers(samples * voxels, 5, 0, static_cast<float>(C)))
    label.push_back(static_cast<std::uint8_t>(v));
  DiceCeBatch b;
  b.type = sizeof(T) == 4 ? VoxelType::f32 : VoxelType::bf16;
  b.samples = samples;
  b.voxels = voxels;
  b.sample_stride = static_cast<std::int64_t>(C) * voxels;
  b.class_stride = channels_last ? 1 : voxels;
  b.voxel_stride = channels_last ? C : 1;
  std::vector<T> logits(samples * voxels * C);
  std::vector<double> z(logits.size());
  const auto drawn = test::numbers(logits.size(), 6, -3, 3);
  const auto place = [&](int v, int c) {
    return (v / voxels) * b.sample_stride + (v % voxels) * b.voxel_stride + c * b.class_stride;
  };
  for (int v = 0; v < samples * voxels; ++v)
    for (int c = 0; c < C; ++c) {
      from_float(drawn[v * C + c], logits[place(v, c)]);
      z[v * C + c] = to_float(logits[place(v, c)]);
    }
  const Both<T> x(logits);
  const Both<std::uint8_t> y(label);
  const Both<T> grad(std::vector<T>(logits.size()));
  const Both<float> numbers({-1, 0.5f});
  b.logits = x.device();
  b.label = y.device();
  const Both<char> workspace(std::vector<char>(test::cuda().dice_ce_workspace(r, b), '\x5a'));
  for (int again = 0; again < 2; ++again)  // the workspace may be used again
    test::ok(test::cuda().dice_ce(r, b, workspace.device(), numbers.device(), nullptr));
  test::ok(test::cuda().dice_ce_backward(r, b, workspace.device(), numbers.device() + 1,
                                         grad.device(), nullptr));
  const Expected e = expected(r, z, label, samples, voxels, 0.5);
  CHECK(numbers.read()[0] == doctest::Approx(e.loss).epsilon(2e-6));
  const std::vector<T> got = grad.read();
  double wrong = 0, size = 0;
  for (int v = 0; v < samples * voxels; ++v)
    for (int c = 0; c < C; ++c) {
      const double want = e.grad[v * C + c], d = to_float(got[place(v, c)]) - want;
      wrong += d * d;
      size += want * want;
    }
  CHECK(std::sqrt(wrong / size) < limit);
}

}  // namespace

TEST_CASE("DiceCE on the device: loss and gradient, in every layout, type and number of classes") {
  SLUICE_NEEDS_GPU();
  for (const int classes : {2, 3, 4, 6, 11, 20}) {
    CAPTURE(classes);
    DiceCeRule r;
    r.classes = classes;
    check<float>(r, 2, 3001, false, 1e-5);
    check<float>(r, 2, 1100, true, 1e-5);
    check<Brain>(r, 2, 1100, true, 4e-3);
  }
}

TEST_CASE("DiceCE on the device keeps each of its parameters") {
  SLUICE_NEEDS_GPU();
  for (int k = 0; k < 7; ++k) {
    CAPTURE(k);
    DiceCeRule r;
    r.classes = 3;
    r.include_background = k != 0;
    r.squared_pred = k == 1;
    r.jaccard = k == 2;
    r.batch = k == 3;
    if (k == 4) r.reduction = Reduce::sum;
    if (k == 5) r.lambda_dice = 0.3, r.lambda_ce = 0.7, r.smooth_nr = 0.1, r.smooth_dr = 0.2;
    if (k == 6) r.ce_weight[1] = 3, r.dice_weight[2] = 0.5;
    check<float>(r, 3, 1300, true, 1e-5);
  }
}
