// Blending on the CPU: blend_voxel.h's arithmetic window by window and row by row, so that it
// vectorises. Threads share out planes.
#include "kernels/infer/blend_host.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "kernels/base/team.h"

namespace sluice::kernels {
namespace {

constexpr std::int64_t block = 1024;  // voxels at a time: quotients stay in the first cache

// Row (x, y) of window w, which covers it.
template <class T, bool half>
void add_row(const BlendCall& c, int w, int x, int y, float* weights) {
  const int ix = x - c.start[w][0], iy = y - c.start[w][1], n = c.window[2];
  float front = 1;
  if (c.weight[0]) front *= c.weight[0][ix];
  if (c.weight[1]) front *= c.weight[1][iy];
  for (int i = 0; i < n; ++i) {
    const float weight = stored(c.weight[2] ? front * c.weight[2][i] : front, half);
    weights[i] = weight > c.least ? weight : c.least;
  }
  const std::int64_t at = static_cast<std::int64_t>(y) * c.sums.size[2] + c.start[w][2];
  float* const total = c.sums.total_of(x) + at;
  for (int i = 0; i < n; ++i) total[i] = stored(total[i] + weights[i], half);
  const T* from =
      static_cast<const T*>(c.logits) + w * c.window_stride + ix * c.stride[0] + iy * c.stride[1];
  float* sum = c.sums.sum_of(x) + at;
  const std::int64_t step = c.stride[2];
  for (int k = 0; k < c.sums.channels; ++k, from += c.channel_stride, sum += c.sums.channel()) {
    if (step == 1)
      for (int i = 0; i < n; ++i) sum[i] = stored(mad(to_float(from[i]), weights[i], sum[i]), half);
    else
      for (int i = 0; i < n; ++i)
        sum[i] = stored(mad(to_float(from[i * step]), weights[i], sum[i]), half);
  }
}

template <class T, bool half>
void add_planes(const BlendCall& c, std::int64_t begin, std::int64_t end) {
  std::vector<float> weights(static_cast<std::size_t>(c.window[2]));
  for (auto x = static_cast<int>(begin); x < end; ++x)
    for (int w = 0; w < c.windows; ++w) {
      if (x < c.start[w][0] || x >= c.start[w][0] + c.window[0]) continue;
      for (int y = c.start[w][1]; y < c.start[w][1] + c.window[1]; ++y)
        add_row<T, half>(c, w, x, y, weights.data());
    }
}

// n neighbouring voxels; channels are `stride` floats apart.
void finish_means(float* sum, std::int64_t stride, int channels, float* total, std::int64_t n,
                  bool half) {
  for (int k = 0; k < channels; ++k)
    for (std::int64_t i = 0; i < n; ++i) sum[k * stride + i] /= total[i];
  for (int k = 0; k < channels && half; ++k)
    for (std::int64_t i = 0; i < n; ++i) sum[k * stride + i] = as_half(sum[k * stride + i]);
  std::fill_n(total, n, 0.0f);
}

void finish_classes(float* sum, std::int64_t stride, int channels, float* total, std::int64_t n,
                    std::uint8_t* out, bool half) {
  float best[block];
  std::int32_t winner[block];
  for (std::int64_t i = 0; i < n; ++i) best[i] = stored(sum[i] / total[i], half);
  std::fill_n(winner, n, 0);
  for (std::int32_t k = 1; k < channels; ++k)
    for (std::int64_t i = 0; i < n; ++i) {
      const float now = stored(sum[k * stride + i] / total[i], half);
      const bool better = outranks(now, best[i]);
      winner[i] = better ? k : winner[i];
      best[i] = better ? now : best[i];
    }
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(winner[i]);
  for (int k = 0; k < channels; ++k) std::fill_n(sum + k * stride, n, 0.0f);
  std::fill_n(total, n, 0.0f);
}

template <class Call>
void require(const Call& call) {
  if (const char* problem = blend_problem(call))
    throw Error(Exit::usage, std::string("blending: ") + problem);
}

}  // namespace

void blend(const BlendCall& c) {
  require(c);
  const BlendBox box = BlendBox::of(c);
  const std::int64_t first = box.begin[0];
  team_for(box.end[0] - first, [&](std::int64_t begin, std::int64_t end) {
    with_voxel(c.type, [&](auto type) {
      using T = decltype(type);
      if (c.sums.half)
        add_planes<T, true>(c, first + begin, first + end);
      else
        add_planes<T, false>(c, first + begin, first + end);
    });
  });
}

void blend_finish(const BlendFinish& f) {
  require(f);
  const std::int64_t plane = f.sums.plane();
  team_for(f.end - f.begin, [&](std::int64_t begin, std::int64_t end) {
    for (auto x = static_cast<int>(f.begin + begin); x < f.begin + end; ++x)
      for (std::int64_t at = 0; at < plane; at += block) {
        float *const sum = f.sums.sum_of(x) + at, *const total = f.sums.total_of(x) + at;
        const std::int64_t n = std::min(block, plane - at);
        if (f.classes)
          finish_classes(sum, f.sums.channel(), f.sums.channels, total, n,
                         f.classes + x * plane + at, f.sums.half);
        else
          finish_means(sum, f.sums.channel(), f.sums.channels, total, n, f.sums.half);
      }
  });
}

}  // namespace sluice::kernels
