// Norm, activation and residual on the device against the formulas written out in double.
#include <cmath>

#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

struct Shape {
  int groups, rows, channels, together = 1;  // so many channels have their statistics in common
};

template <class T>
struct Problem {
  Shape n;
  std::vector<T> x, residual, grad;
  std::vector<float> gamma, beta;
  float slope = 0.25f;

  explicit Problem(Shape s) : n(s) {
    const std::size_t size = static_cast<std::size_t>(s.groups) * s.rows * s.channels;
    for (auto [v, key] : {std::pair{&x, 1}, {&residual, 2}, {&grad, 3}}) {
      v->resize(size);
      const auto drawn = test::numbers(size, key, key == 1 ? 4.0f : -1.0f, key == 1 ? 6.0f : 1.0f);
      for (std::size_t i = 0; i < size; ++i) from_float(drawn[i], (*v)[i]);
    }
    gamma = test::numbers(s.channels, 4, 0.5f, 1.5f);
    beta = test::numbers(s.channels, 5);
  }
  std::size_t at(int g, int r, int c) const {
    return (static_cast<std::size_t>(g) * n.rows + r) * n.channels + c;
  }
};

struct Expected {
  std::vector<double> y, dx, mean, variance, dgamma, dbeta;
  double dslope = 0;
};

template <class T>
Expected expected(const Problem<T>& p, bool frozen) {
  const Shape n = p.n;
  Expected e;
  e.y.resize(p.x.size());
  e.dx.resize(p.x.size());
  e.dgamma.resize(n.channels);
  e.dbeta.resize(n.channels);
  const double size = double(n.rows) * n.together;
  for (int g = 0; g < n.groups; ++g)
    for (int first = 0; first < n.channels; first += n.together) {
      double mean = 0, variance = 0, sum = 0, product = 0;
      const auto each = [&](auto&& body) {
        for (int r = 0; r < n.rows; ++r)
          for (int c = first; c < first + n.together; ++c) body(p.at(g, r, c), c);
      };
      each([&](std::size_t i, int) { mean += to_float(p.x[i]) / size; });
      each([&](std::size_t i, int) { variance += std::pow(to_float(p.x[i]) - mean, 2) / size; });
      const double rstd = 1 / std::sqrt(variance + 1e-5);
      e.mean.insert(e.mean.end(), n.together, mean);
      e.variance.insert(e.variance.end(), n.together, variance);
      for (const bool second : {false, true})
        each([&](std::size_t i, int c) {
          const double hat = (to_float(p.x[i]) - mean) * rstd, u = hat * p.gamma[c] + p.beta[c];
          const double d = to_float(p.grad[i]) * (u > 0 ? 1.0 : p.slope);
          if (second) {
            const double answer = frozen ? 0 : (sum + hat * product) / size;
            e.dx[i] = (d * p.gamma[c] - answer) * rstd;
            return;
          }
          e.y[i] = (u > 0 ? u : p.slope * u) + to_float(p.residual[i]);
          sum += d * p.gamma[c];
          product += d * p.gamma[c] * hat;
          e.dgamma[c] += d * hat;
          e.dbeta[c] += d;
          e.dslope += u > 0 ? 0 : to_float(p.grad[i]) * u;
        });
    }
  return e;
}

template <class A, class B>
double relative(const std::vector<A>& a, const std::vector<B>& b) {
  double wrong = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double x;
    if constexpr (std::is_same_v<A, double>)
      x = a[i];
    else
      x = to_float(a[i]);
    wrong += (x - b[i]) * (x - b[i]);
    size += double(b[i]) * b[i];
  }
  return std::sqrt(wrong / size);
}

template <class T>
void check(Shape n, bool frozen, double limit) {
  CAPTURE(n.groups);
  CAPTURE(n.rows);
  CAPTURE(n.channels);
  CAPTURE(n.together);
  const Problem<T> p(n);
  const Expected e = expected(p, frozen);
  const std::size_t stats = static_cast<std::size_t>(n.groups) * n.channels;
  const Both<T> x(p.x), residual(p.residual), grad(p.grad);
  const Both<T> y(std::vector<T>(p.x.size())), dx(std::vector<T>(p.x.size()));
  const Both<float> gamma(p.gamma), beta(p.beta), slope({p.slope});
  const Both<float> mean{std::vector<float>(stats)}, variance{std::vector<float>(stats)};
  const Both<float> dgamma{std::vector<float>(p.gamma.size())}, dslope{std::vector<float>(1)};
  const Both<float> dbeta{std::vector<float>(p.gamma.size())};
  NormActCall call;
  call.type = sizeof(T) == 4 ? VoxelType::f32 : VoxelType::bf16;
  call.groups = n.groups;
  call.rows = n.rows;
  call.channels = n.channels;
  call.x = x.device();
  const Both<char> workspace(std::vector<char>(test::cuda().norm_act_workspace(call), '\x5a'));
  test::ok(test::cuda().norm_statistics(call, workspace.device(), mean.device(), variance.device(),
                                        nullptr));
  if (n.together == 1) {
    CHECK(relative(mean.read(), e.mean) < 1e-6);
    CHECK(relative(variance.read(), e.variance) < 1e-5);
  }
  std::vector<float> inverse;
  for (double v : e.variance) inverse.push_back(static_cast<float>(1 / std::sqrt(v + 1e-5)));
  const Both<float> rstd(inverse), common(std::vector<float>(e.mean.begin(), e.mean.end()));
  call.residual = residual.device();
  call.mean = common.device();
  call.together = n.together;
  call.rstd = rstd.device();
  call.gamma = gamma.device();
  call.beta = beta.device();
  call.slope = slope.device();
  call.frozen = frozen;
  test::ok(test::cuda().norm_act(call, y.device(), nullptr));
  CHECK(relative(y.read(), e.y) < limit);
  test::ok(test::cuda().norm_act_backward(
      call, workspace.device(), grad.device(),
      {dx.device(), dgamma.device(), dbeta.device(), dslope.device()}, nullptr));
  CHECK(relative(dx.read(), e.dx) < limit);
  CHECK(relative(dgamma.read(), e.dgamma) < 2e-5);
  CHECK(relative(dbeta.read(), e.dbeta) < 2e-5);
  CHECK(dslope.read()[0] == doctest::Approx(e.dslope).epsilon(1e-5));
}

}  // namespace

TEST_CASE("norm, activation and residual on the device, forward and backward, in every shape") {
  SLUICE_NEEDS_GPU();
  // Columns of 16 bytes and of one value, several tiles, groups of few rows.
  for (const Shape n : {Shape{2, 700, 32},
                        {1, 3000, 16},
                        {3, 211, 3},
                        {2, 333, 1},
                        {2, 5, 320},
                        {1, 40, 1100},
                        {2, 64, 2056},
                        {1, 9, 8},
                        {2, 300, 24, 3},
                        {2, 90, 1028, 257}})
    for (const bool frozen : {false, true}) {
      check<float>(n, frozen, 2e-5);
      check<Brain>(n, frozen, 4e-3);
    }
}
