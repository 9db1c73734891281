// Thin convolutions on the device against the sum written out in double.
#include <cmath>

#include "kernels/net/thin_conv_call.h"
#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

constexpr int batch = 2, D = 3, H = 6, W = 37;

template <class T>
std::vector<T> rounded(const std::vector<float>& from) {
  std::vector<T> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from_float(from[i], to[i]);
  return to;
}

// The three sums in double, from what T holds.
template <class T>
struct Problem {
  int C, depth;
  std::vector<T> x, grad, weight;
  std::vector<float> bias;
  std::vector<double> y, dx, dw;

  Problem(int channels, int kernel_depth) : C(channels), depth(kernel_depth) {
    const std::size_t n = std::size_t(batch * D * H * W * C);
    x = rounded<T>(test::numbers(n, 1));
    grad = rounded<T>(test::numbers(n, 2));
    weight = rounded<T>(test::numbers(std::size_t(C * C * depth * 9), 3));
    bias = test::numbers(std::size_t(C), 4);
    dx.assign(n, 0);
    dw.assign(weight.size(), 0);
    for (std::size_t i = 0; i < n; ++i) y.push_back(bias[i % std::size_t(C)]);
    for (int b = 0; b < batch; ++b)
      for (int z = 0; z < D; ++z)
        for (int r = 0; r < H; ++r)
          for (int c = 0; c < W; ++c)
            for (int k = 0; k < depth * 9; ++k)
              add(b, z, r, c, z + k / 9 - depth / 2, r + k / 3 % 3 - 1, c + k % 3 - 1, k);
  }

 private:
  void add(int b, int z, int r, int c, int z1, int r1, int c1, int k) {
    if (z1 < 0 || z1 >= D || r1 < 0 || r1 >= H || c1 < 0 || c1 >= W) return;
    const auto to = std::size_t(((b * D + z) * H + r) * W + c) * std::size_t(C),
               from = std::size_t(((b * D + z1) * H + r1) * W + c1) * std::size_t(C);
    for (int o = 0; o < C; ++o)
      for (int i = 0; i < C; ++i) {
        const auto w = std::size_t((o * C + i) * depth * 9 + k);
        const double in = to_float(x[from + i]), g = to_float(grad[to + o]);
        y[to + o] += to_float(weight[w]) * in;
        dx[from + i] += to_float(weight[w]) * g;
        dw[w] += g * in;
      }
  }
};

template <class T>
double furthest(const std::vector<T>& got, const std::vector<double>& wanted) {
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    worst = std::max(worst, std::abs(to_float(got[i]) - wanted[i]) / (1 + std::abs(wanted[i])));
  return worst;
}

template <class T>
void check(VoxelType type, double rounding) {
  for (int channels = 1; channels <= thin_most; ++channels)
    for (const int depth : {1, 3}) {
      CAPTURE(channels);
      CAPTURE(depth);
      const Problem<T> p(channels, depth);
      const Both<T> x(p.x), grad(p.grad), weight(p.weight), made(std::vector<T>(p.x.size()));
      const Both<float> bias(p.bias), dw(std::vector<float>(p.weight.size()));
      ThinConvCall c;
      c.type = type;
      c.channels = channels, c.depth = depth;
      c.batch = batch, c.size[0] = D, c.size[1] = H, c.size[2] = W;
      c.x = x.device(), c.weight = weight.device(), c.bias = bias.device(), c.y = made.device();
      test::ok(test::cuda().thin_conv(c, nullptr));
      CHECK(furthest(made.read(), p.y) < rounding);

      const Both<char> workspace(std::vector<char>(test::cuda().thin_conv_workspace(c)));
      test::ok(test::cuda().thin_conv_weight_grad(c, grad.device(), workspace.device(), dw.device(),
                                                  nullptr));
      CHECK(furthest(dw.read(), p.dw) < 1e-5);

      c.x = grad.device(), c.bias = nullptr, c.adjoint = true;
      test::ok(test::cuda().thin_conv(c, nullptr));
      CHECK(furthest(made.read(), p.dx) < rounding);
    }
}

}  // namespace

TEST_CASE("thin convolutions and their gradients on the device") {
  SLUICE_NEEDS_GPU();
  check<Brain>(VoxelType::bf16, 0x1p-8);
  check<Half>(VoxelType::f16, 0x1p-10);
}

TEST_CASE("a thin convolution refuses what it has no loops for") {
  ThinConvCall c;
  c.channels = thin_most + 1;
  CHECK(test::cuda().thin_conv(c, nullptr) != 0);
  c.channels = 3, c.type = VoxelType::f32;
  CHECK(test::cuda().thin_conv(c, nullptr) != 0);
}
