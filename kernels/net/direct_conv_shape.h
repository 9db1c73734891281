// Sizes and padded copies that the direct convolutions share.
//
// Invariant: every position a tap can reach lies in the padded copy, so inner loops have no
// borders; what lies outside the image is zero, and so is a little slack after the last row.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/net/direct_conv.h"

#define SLUICE_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]]

namespace sluice {

// One or two or three numbers as z, y, x.
inline Size3 three(const std::vector<std::int64_t>& v, std::int64_t fill) {
  Size3 s{fill, fill, fill};
  std::copy(v.begin(), v.end(), s.end() - static_cast<std::ptrdiff_t>(v.size()));
  return s;
}
inline Size3 spatial(const at::Tensor& t) {
  return three({t.sizes().begin() + 2, t.sizes().end()}, 1);
}

// One channels-last sample from position `low` (not above 0) on; nothing is copied where there is
// nothing to pad.
class PaddedRows {
 public:
  PaddedRows(const Size3& size, std::int64_t channels, const Size3& low, const Size3& need)
      : size_(size), low_(low), channels_(channels) {
    for (int d = 0; d < 3; ++d) padded_[d] = need[d];
    direct_ = low == Size3{0, 0, 0} && need == size && channels % 2 == 0;
    if (!direct_) copy_.resize(padded_[0] * padded_[1] * padded_[2] * channels + 64);
  }
  void fill(const Bf16Bits* sample) {
    data_ = direct_ ? sample : copy_.data();
    if (direct_) return;
    team_for(padded_[0], [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t z = begin; z < end; ++z)
        for (std::int64_t y = 0; y < padded_[1]; ++y) fill_row(sample, z, y);
    });
  }
  const Bf16Bits* data() const { return data_; }
  const char* bytes() const { return reinterpret_cast<const char*>(data_); }
  // Bytes to the image's position (z, y, x).
  std::ptrdiff_t offset(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return (((z - low_[0]) * padded_[1] + y - low_[1]) * padded_[2] + x - low_[2]) * channels_ * 2;
  }

 private:
  void fill_row(const Bf16Bits* sample, std::int64_t z, std::int64_t y) {
    Bf16Bits* to = copy_.data() + (z * padded_[1] + y) * padded_[2] * channels_;
    const std::int64_t iz = z + low_[0], iy = y + low_[1], left = -low_[2];
    const std::int64_t n = std::min(size_[2], padded_[2] - left);
    if (iz < 0 || iz >= size_[0] || iy < 0 || iy >= size_[1]) {
      std::memset(to, 0, padded_[2] * channels_ * 2);
      return;
    }
    std::memset(to, 0, left * channels_ * 2);
    std::memcpy(to + left * channels_, sample + (iz * size_[1] + iy) * size_[2] * channels_,
                n * channels_ * 2);
    std::memset(to + (left + n) * channels_, 0, (padded_[2] - left - n) * channels_ * 2);
  }

  Size3 size_, low_, padded_{};
  std::int64_t channels_;
  bool direct_;
  std::vector<Bf16Bits> copy_;
  const Bf16Bits* data_ = nullptr;
};

}  // namespace sluice
