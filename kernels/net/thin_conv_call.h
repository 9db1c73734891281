// A convolution of 3 x 3 (x 3) to as many channels as come in, at most four, whose output is as
// large as its input, channels last:
//
//   y[v][o] = bias[o] + sum over taps t and channels i of w[o][i][t] x[v + t - 1][i]   outside: 0
//
// The last residual unit of MONAI's UNet is one, at full size, for as many channels as there are
// classes. Tensor cores take channels in eights: filled up, 3 to 3 channels of 4 x 96^3 voxels took
// an H100 0.9 ms, and 0.3 more for filling and cutting, where their memory is read and written in
// 0.02. For host and device.
#pragma once

#include "kernels/base/lanes.h"
#include "kernels/base/voxel_type.h"

namespace sluice::kernels {

struct ThinConvCall {
  VoxelType type = VoxelType::bf16;  // of x, weight, y and gradients: f16 or bf16
  int channels = 1;
  int depth = 3;  // the kernel is depth x 3 x 3; 1 or 3
  std::uint32_t batch = 1, size[3] = {1, 1, 1};
  const void* x = nullptr;       // [batch, z, y, x, channels]
  const void* weight = nullptr;  // [channels out, channels in, depth, 3, 3]
  const float* bias = nullptr;   // [channels]; null: none
  bool adjoint = false;          // from y's gradient in place of x to x's
  void* y = nullptr;             // as x

  SLUICE_HD std::int64_t voxels() const {
    return std::int64_t{1} * batch * size[0] * size[1] * size[2];
  }
};

inline constexpr int thin_most = 4;            // channels
inline constexpr std::uint32_t thin_rows = 4;  // a thread has voxels of so many rows

// The weights in the loop's order, [z][x][y][in][out].
template <class T, int C>
SLUICE_HD float thin_weight(const ThinConvCall& c, int at) {
  const int out = at % C, in = at / C % C, y = at / (C * C) % 3, x = at / (3 * C * C) % 3,
            z = at / (9 * C * C);
  const auto of = [&](int o, int i, int kz, int ky, int kx) {
    return to_float(
        static_cast<const T*>(c.weight)[(((o * C + i) * c.depth + kz) * 3 + ky) * 3 + kx]);
  };
  return c.adjoint ? of(in, out, c.depth - 1 - z, 2 - y, 2 - x) : of(out, in, z, y, x);
}

// Columns of thin_rows voxels along y, x fastest.
SLUICE_HD inline std::uint32_t thin_columns(const ThinConvCall& c) {
  return c.batch * c.size[0] * ((c.size[1] + thin_rows - 1) / thin_rows) * c.size[2];
}

// One of these; `weights` as thin_weight() gives them.
template <class T, int C>
SLUICE_HD void thin_column(const ThinConvCall& c, const float* weights, std::uint32_t item) {
  const auto D = static_cast<int>(c.size[0]), H = static_cast<int>(c.size[1]),
             W = static_cast<int>(c.size[2]);
  constexpr int R = thin_rows;
  const std::uint32_t columns = (c.size[1] + thin_rows - 1) / thin_rows;
  const int x = static_cast<int>(item % c.size[2]);
  const int y = static_cast<int>(item / c.size[2] % columns) * R;
  const std::uint32_t plane = item / c.size[2] / columns;  // of all members'
  const int z = static_cast<int>(plane % c.size[0]);
  float sum[R][C];
  SLUICE_UNROLL
  for (int n = 0; n < R * C; ++n) sum[n / C][n % C] = c.bias ? c.bias[n % C] : 0.0f;
  for (int kz = 0; kz < c.depth; ++kz) {
    const int down = kz - c.depth / 2;
    if (z + down < 0 || z + down >= D) continue;
    const T* from = static_cast<const T*>(c.x) + (std::int64_t{plane} + down) * H * W * C;
    SLUICE_UNROLL
    for (int kx = 0; kx < 3; ++kx) {
      if (x + kx < 1 || x + kx > W) continue;
      float in[R + 2][C];
      SLUICE_UNROLL
      for (int n = 0; n < (R + 2) * C; ++n) {
        const int row = y + n / C - 1;
        in[n / C][n % C] =
            row >= 0 && row < H ? to_float(from[(row * W + x + kx - 1) * C + n % C]) : 0.0f;
      }
      const float* w = weights + (kz * 3 + kx) * 3 * C * C;
      SLUICE_UNROLL
      for (int n = 0; n < 3 * C * C; ++n) {
        const int ky = n / (C * C), i = n / C % C, o = n % C;
        SLUICE_UNROLL
        for (int r = 0; r < R; ++r) sum[r][o] = mad(w[n], in[r + ky][i], sum[r][o]);
      }
    }
  }
  T* to = static_cast<T*>(c.y) + std::int64_t{plane} * H * W * C;
  SLUICE_UNROLL
  for (int n = 0; n < R * C; ++n) {
    const int row = y + n / C;
    if (row < H) from_float(sum[n / C][n % C], to[(row * W + x) * C + n % C]);
  }
}

// Adds a voxel's part of the weight's gradient, for plane kz of the kernel: [y][x][out][in].
template <class T, int C>
SLUICE_HD void thin_add(const ThinConvCall& c, const void* grad, int kz, std::uint32_t voxel,
                        float (&sum)[9 * C * C]) {
  const auto D = static_cast<int>(c.size[0]), H = static_cast<int>(c.size[1]),
             W = static_cast<int>(c.size[2]);
  const int x = static_cast<int>(voxel % c.size[2]);
  const int y = static_cast<int>(voxel / c.size[2] % c.size[1]);
  const std::uint32_t plane = voxel / c.size[2] / c.size[1];
  const int down = kz - c.depth / 2, z = static_cast<int>(plane % c.size[0]) + down;
  if (z < 0 || z >= D) return;
  const T* from = static_cast<const T*>(c.x) + (std::int64_t{plane} + down) * H * W * C;
  float g[C];
  SLUICE_UNROLL
  for (int o = 0; o < C; ++o)
    g[o] = to_float(static_cast<const T*>(grad)[std::int64_t{voxel} * C + o]);
  SLUICE_UNROLL
  for (int n = 0; n < 9 * C; ++n) {  // taps [y][x] and channels in
    const int tap = n / C, i = n % C, row = y + tap / 3 - 1, column = x + tap % 3 - 1;
    const bool there = row >= 0 && row < H && column >= 0 && column < W;
    const float in = there ? to_float(from[(row * W + column) * C + i]) : 0.0f;
    SLUICE_UNROLL
    for (int o = 0; o < C; ++o) {
      float& to = sum[(tap * C + o) * C + i];
      to = mad(g[o], in, to);
    }
  }
}

}  // namespace sluice::kernels
