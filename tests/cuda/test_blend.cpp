// Blending windows on the device, with batches of different sizes, against the sums in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

constexpr int volume[3] = {13, 11, 40}, window[3] = {6, 5, 17}, channels = 3;
constexpr int voxels = 13 * 11 * 40, of_window = 6 * 5 * 17;

std::vector<std::array<int, 3>> starts() {
  std::vector<std::array<int, 3>> out;
  for (int x : {0, 4, 7})
    for (int y : {0, 3, 6})
      for (int z : {0, 9, 18, 23}) out.push_back({x, y, z});
  return out;
}
std::vector<float> weights(int d) {
  std::vector<float> w;
  for (int i = 0; i < window[d]; ++i)
    w.push_back(
        std::exp(-std::pow(i - (window[d] - 1) / 2.0f, 2.0f) / (0.03f * window[d] * window[d])));
  return w;
}

struct Blended {
  std::vector<float> sum, total, mean;
  std::vector<std::uint8_t> classes;
};

Blended blended(const std::vector<float>& logits, int batch, float least) {
  const Both<float> x(logits), wx(weights(0)), wy(weights(1)), wz(weights(2));
  const Both<float> sum(std::vector<float>(channels * voxels)), total{std::vector<float>(voxels)};
  const Both<std::uint8_t> classes(std::vector<std::uint8_t>(voxels, 99));
  const auto at = starts();
  for (std::size_t first = 0; first < at.size(); first += batch) {
    BlendCall c;
    c.logits = x.device() + first * channels * of_window;
    c.windows = static_cast<int>(std::min<std::size_t>(batch, at.size() - first));
    c.channels = channels;
    for (int w = 0; w < c.windows; ++w)
      for (int d = 0; d < 3; ++d) c.start[w][d] = at[first + w][d];
    for (int d = 0; d < 3; ++d) c.window[d] = window[d], c.size[d] = volume[d];
    c.window_stride = channels * of_window;  // channels-last
    c.channel_stride = 1;
    c.stride[0] = channels * window[1] * window[2];
    c.stride[1] = channels * window[2];
    c.stride[2] = channels;
    c.weight[0] = wx.device(), c.weight[1] = wy.device(), c.weight[2] = wz.device();
    c.least = least;
    c.sum = sum.device();
    c.total = total.device();
    test::ok(test::cuda().blend(c, nullptr));
  }
  Blended b{sum.read(), total.read(), {}, {}};
  test::ok(test::cuda().blend_classes(sum.device(), voxels, channels, classes.device(), nullptr));
  test::ok(test::cuda().blend_average(sum.device(), total.device(), voxels, channels, nullptr));
  b.mean = sum.read();
  b.classes = classes.read();
  return b;
}

}  // namespace

TEST_CASE("windows blend to the weighted mean, and batches of any size give the same bits") {
  SLUICE_NEEDS_GPU();
  const auto at = starts();
  const std::vector<float> logits = test::numbers(at.size() * channels * of_window, 3);
  constexpr float least = 1e-3f;
  std::vector<double> sum(channels * voxels), total(voxels);
  const std::vector<float> w[3] = {weights(0), weights(1), weights(2)};
  for (std::size_t k = 0; k < at.size(); ++k)
    for (int i = 0; i < of_window; ++i) {
      const int p[3] = {i / (window[1] * window[2]), i / window[2] % window[1], i % window[2]};
      const double weight = std::max(double(w[0][p[0]]) * w[1][p[1]] * w[2][p[2]], double(least));
      const int voxel =
          ((at[k][0] + p[0]) * volume[1] + at[k][1] + p[1]) * volume[2] + at[k][2] + p[2];
      total[voxel] += weight;
      for (int c = 0; c < channels; ++c)
        sum[c * voxels + voxel] += weight * logits[(k * of_window + i) * channels + c];
    }
  const Blended b = blended(logits, 5, least);
  double worst = 0;
  int wrong = 0;
  for (int v = 0; v < voxels; ++v) {
    REQUIRE(total[v] > 0);
    int best = 0;
    for (int c = 0; c < channels; ++c) {
      worst = std::max(worst, std::abs(b.mean[c * voxels + v] - sum[c * voxels + v] / total[v]));
      if (b.sum[c * voxels + v] > b.sum[best * voxels + v]) best = c;
    }
    wrong += b.classes[v] != best;
  }
  CHECK(worst < 2e-6);
  CHECK(wrong == 0);
  for (const int batch : {1, 7, 64}) {
    const Blended other = blended(logits, batch, least);
    CHECK(std::memcmp(other.sum.data(), b.sum.data(), b.sum.size() * sizeof(float)) == 0);
    CHECK(std::memcmp(other.total.data(), b.total.data(), b.total.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("a window outside the volume is refused") {
  BlendCall c;
  CHECK(test::cuda().blend(c, nullptr) != 0);
}
