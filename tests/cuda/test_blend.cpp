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

std::vector<float> logits() { return test::numbers(starts().size() * channels * of_window, 3); }

struct Blended {
  std::vector<float> means;
  std::vector<std::uint8_t> classes;
};

// Windows, `batch` at a time but of one plane, with a window's depth of sums where classes are
// asked for, and planes finished as soon as no later window touches them.
Blended blended(const std::vector<float>& logits, int batch, float least, bool of_classes,
                bool half = false) {
  const Both<float> x(logits), wx(weights(0)), wy(weights(1)), wz(weights(2));
  const int planes = of_classes ? window[0] : volume[0], plane = volume[1] * volume[2];
  const Both<float> sum{std::vector<float>(channels * planes * plane)};
  const Both<float> total{std::vector<float>(window[0] * plane)};
  const Both<std::uint8_t> classes(std::vector<std::uint8_t>(voxels, 99));
  BlendSums sums;
  sums.channels = channels;
  sums.half = half;
  for (int d = 0; d < 3; ++d) sums.size[d] = volume[d];
  sums.sum_planes = planes;
  sums.total_planes = window[0];
  sums.sum = sum.device();
  sums.total = total.device();
  int finished = 0;
  const auto finish = [&](int end) {
    BlendFinish f{sums, finished, end, of_classes ? classes.device() : nullptr};
    test::ok(test::cuda().blend_finish(f, nullptr));
    finished = end;
  };
  const auto at = starts();
  for (std::size_t first = 0, end; first < at.size(); first = end) {
    for (end = first + 1; end < at.size() && end < first + batch && at[end][0] == at[first][0];)
      ++end;
    BlendCall c;
    c.logits = x.device() + first * channels * of_window;
    c.windows = static_cast<int>(end - first);
    for (int w = 0; w < c.windows; ++w)
      for (int d = 0; d < 3; ++d) c.start[w][d] = at[first + w][d];
    for (int d = 0; d < 3; ++d) c.window[d] = window[d];
    c.window_stride = channels * of_window;  // channels-last
    c.channel_stride = 1;
    c.stride[0] = channels * window[1] * window[2];
    c.stride[1] = channels * window[2];
    c.stride[2] = channels;
    c.weight[0] = wx.device(), c.weight[1] = wy.device(), c.weight[2] = wz.device();
    c.least = least;
    c.sums = sums;
    finish(at[first][0]);
    test::ok(test::cuda().blend(c, nullptr));
  }
  finish(volume[0]);
  for (const float t : total.read()) CHECK(t == 0);
  if (of_classes)
    for (const float v : sum.read()) CHECK(v == 0);
  return {sum.read(), classes.read()};
}

}  // namespace

TEST_CASE("windows blend to the weighted mean, and batches of any size give the same bits") {
  SLUICE_NEEDS_GPU();
  const auto at = starts();
  constexpr float least = 1e-3f;
  std::vector<double> sum(channels * voxels), total(voxels);
  const std::vector<float> w[3] = {weights(0), weights(1), weights(2)}, x = logits();
  for (std::size_t k = 0; k < at.size(); ++k)
    for (int i = 0; i < of_window; ++i) {
      const int p[3] = {i / (window[1] * window[2]), i / window[2] % window[1], i % window[2]};
      const double weight = std::max(double(w[0][p[0]]) * w[1][p[1]] * w[2][p[2]], double(least));
      const int voxel =
          ((at[k][0] + p[0]) * volume[1] + at[k][1] + p[1]) * volume[2] + at[k][2] + p[2];
      total[voxel] += weight;
      for (int c = 0; c < channels; ++c)
        sum[c * voxels + voxel] += weight * x[(k * of_window + i) * channels + c];
    }
  const Blended b = blended(x, 5, least, false);
  double worst = 0;
  for (int i = 0; i < channels * voxels; ++i)
    worst = std::max(worst, std::abs(b.means[i] - sum[i] / total[i % voxels]));
  CHECK(worst < 2e-6);
  for (const int batch : {1, 7, 64}) {
    const Blended other = blended(x, batch, least, false);
    CHECK(std::memcmp(other.means.data(), b.means.data(), b.means.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("sums in float16 are rounded after each window, as on the host") {
  SLUICE_NEEDS_GPU();
  const auto at = starts();
  constexpr float least = 1e-3f;
  std::vector<float> sum(channels * voxels), total(voxels);
  const std::vector<float> w[3] = {weights(0), weights(1), weights(2)}, x = logits();
  for (std::size_t k = 0; k < at.size(); ++k)
    for (int i = 0; i < of_window; ++i) {
      const int p[3] = {i / (window[1] * window[2]), i / window[2] % window[1], i % window[2]};
      const float weight = std::max(as_half(w[0][p[0]] * w[1][p[1]] * w[2][p[2]]), least);
      const int voxel =
          ((at[k][0] + p[0]) * volume[1] + at[k][1] + p[1]) * volume[2] + at[k][2] + p[2];
      total[voxel] = as_half(total[voxel] + weight);
      for (int c = 0; c < channels; ++c) {
        float& s = sum[c * voxels + voxel];
        s = as_half(mad(x[(k * of_window + i) * channels + c], weight, s));
      }
    }
  int other = 0;
  const Blended b = blended(x, 5, least, false, true);
  for (int i = 0; i < channels * voxels; ++i)
    other += b.means[i] != as_half(sum[i] / total[i % voxels]);
  CHECK(other == 0);
}

TEST_CASE("classes from a window's depth of sums are those of the means") {
  SLUICE_NEEDS_GPU();
  const Blended means = blended(logits(), 5, 1e-3f, false);
  for (const int batch : {1, 64}) {
    const Blended b = blended(logits(), batch, 1e-3f, true);
    int wrong = 0;
    for (int v = 0; v < voxels; ++v) {
      int best = 0;
      for (int c = 1; c < channels; ++c)
        if (means.means[c * voxels + v] > means.means[best * voxels + v]) best = c;
      wrong += b.classes[v] != best;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a window outside the volume is refused, and one deeper than what is kept") {
  BlendCall c;
  CHECK(test::cuda().blend(c, nullptr) != 0);
  float memory[8] = {};
  c.logits = c.sums.sum = c.sums.total = memory;
  c.windows = 1;
  c.start[0][0] = c.start[0][1] = c.start[0][2] = 0;
  CHECK(blend_problem(c) == nullptr);
  c.window[0] = c.sums.size[0] = 2;
  CHECK(blend_problem(c) != nullptr);
  c.sums.sum_planes = c.sums.total_planes = 2;
  CHECK(blend_problem(c) == nullptr);
  c.start[0][0] = 1;
  CHECK(blend_problem(c) != nullptr);
  CHECK(test::cuda().blend(c, nullptr) != 0);
}
