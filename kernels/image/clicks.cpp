#include "kernels/image/clicks.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/error.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/spatial.h"

namespace sluice {
namespace {

constexpr std::int32_t far = 1 << 30;

// The box around a mask's voxels, one voxel wider on each side. What of it lies outside of the
// array is far, since the border is no zero.
class Distances {
 public:
  Distances(const std::uint8_t* mask, const Shape3& n) : mask_(mask), n_(n) {
    find_box();
    if (low_[0] > high_[0]) return;
    for (int d = 0; d < 3; ++d) size_[d] = high_[d] - low_[d] + 3;
    cells_.assign(static_cast<std::size_t>(size_[0] * size_[1] * size_[2]), far);
    fill();
    pass(1);
    pass(-1);
  }

  std::vector<ClickSite> sites() const {
    std::vector<ClickSite> out;
    if (low_[0] > high_[0]) return out;
    for (auto x = low_[0]; x <= high_[0]; ++x)
      for (auto y = low_[1]; y <= high_[1]; ++y)
        for (auto z = low_[2]; z <= high_[2]; ++z)
          if (const auto d = cells_[cell(x, y, z)]; d > 0)
            out.push_back({{x, y, z}, d >= far ? -1 : d});
    return out;
  }

 private:
  bool set(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return mask_[(x * n_[1] + y) * n_[2] + z] != 0;
  }
  std::size_t cell(std::int64_t x, std::int64_t y, std::int64_t z) const {
    return static_cast<std::size_t>(((x - low_[0] + 1) * size_[1] + y - low_[1] + 1) * size_[2] +
                                    z - low_[2] + 1);
  }

  void find_box() {
    low_ = n_;
    high_ = {-1, -1, -1};
    for (std::int64_t x = 0; x < n_[0]; ++x)
      for (std::int64_t y = 0; y < n_[1]; ++y)
        for (std::int64_t z = 0; z < n_[2]; ++z) {
          if (!set(x, y, z)) continue;
          const Shape3 at{x, y, z};
          for (int d = 0; d < 3; ++d)
            low_[d] = std::min(low_[d], at[d]), high_[d] = std::max(high_[d], at[d]);
        }
  }

  void fill() {
    const auto from = [&](int d) { return std::max<std::int64_t>(low_[d] - 1, 0); };
    const auto to = [&](int d) { return std::min(high_[d] + 1, n_[d] - 1); };
    for (auto x = from(0); x <= to(0); ++x)
      for (auto y = from(1); y <= to(1); ++y)
        for (auto z = from(2); z <= to(2); ++z)
          if (!set(x, y, z)) cells_[cell(x, y, z)] = 0;
  }

  // The 13 neighbours that come before a voxel in memory, or with `sign` -1 after it.
  void pass(int sign) {
    std::array<std::int64_t, 13> before;
    std::size_t k = 0;
    for (int dx = -1; dx <= 0; ++dx)
      for (int dy = -1; dy <= 1; ++dy)
        for (int dz = -1; dz <= 1; ++dz)
          if (dx < 0 || dy < 0 || (dy == 0 && dz < 0))
            before[k++] = sign * ((dx * size_[1] + dy) * size_[2] + dz);
    for (std::int64_t i = 1; i <= size_[0] - 2; ++i)
      for (std::int64_t j = 1; j <= size_[1] - 2; ++j)
        for (std::int64_t l = 1; l <= size_[2] - 2; ++l) {
          const auto mirrored = [&](std::int64_t at, int d) {
            return sign > 0 ? at : size_[d] - 1 - at;
          };
          const auto at = (mirrored(i, 0) * size_[1] + mirrored(j, 1)) * size_[2] + mirrored(l, 2);
          std::int32_t& d = cells_[static_cast<std::size_t>(at)];
          if (d == 0) continue;
          for (const std::int64_t step : before)
            d = std::min(d, cells_[static_cast<std::size_t>(at + step)] + 1);
        }
  }

  const std::uint8_t* mask_;
  Shape3 n_, low_{}, high_{}, size_{};
  std::vector<std::int32_t> cells_;
};

}  // namespace

std::vector<ClickSite> click_sites(const at::Tensor& mask) {
  return Distances(static_cast<const std::uint8_t*>(mask.const_data_ptr()),
                   {mask.size(0), mask.size(1), mask.size(2)})
      .sites();
}

std::vector<double> click_sums(std::span<const ClickSite> sites) {
  constexpr std::int32_t largest_exact = 600;  // the sum of all sites must not overflow
  std::int32_t largest = 0;
  for (const ClickSite& s : sites) largest = std::max(largest, s.distance);
  std::vector<double> sums;
  sums.reserve(sites.size());
  double sum = 0;
  for (const ClickSite& s : sites) {
    if (s.distance < 0)
      sum += 1;  // no zero anywhere: all alike
    else
      sum += largest <= largest_exact ? std::expm1(s.distance) : std::exp(s.distance - largest);
    sums.push_back(sum);
  }
  return sums;
}

const ClickSite& drawn_click(std::span<const ClickSite> sites, double uniform) {
  const std::vector<double> sums = click_sums(sites);
  const auto at = std::upper_bound(sums.begin(), sums.end(), uniform * sums.back());
  return sites[std::min(static_cast<std::size_t>(at - sums.begin()), sites.size() - 1)];
}

at::Tensor click_signal(const at::Tensor& clicks, at::IntArrayRef extents, double sigma) {
  at::Tensor ones = at::zeros(extents, at::kFloat);
  const at::Tensor rows = clicks.to(at::kInt).contiguous();
  const auto* row = rows.const_data_ptr<std::int32_t>();
  const auto axes = static_cast<std::int64_t>(extents.size());
  bool any = false;
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += rows.size(1)) {
    if (std::any_of(row, row + rows.size(1), [](std::int32_t v) { return v < 0; })) continue;
    std::int64_t at = 0;
    for (std::int64_t d = 0; d < axes; ++d) {
      const std::int64_t along = row[rows.size(1) - axes + d], n = extents[d];
      at = at * n + std::min(along, n - 1);
    }
    ones.mutable_data_ptr<float>()[at] = 1;
    any = true;
  }
  if (!any) return ones;
  const at::Tensor volume = to_volume(ones.unsqueeze(0));
  const at::Tensor smooth =
      gaussian(volume, std::vector<double>(static_cast<std::size_t>(axes), sigma));
  const auto [low, high] = at::aminmax(smooth);
  return from_volume((smooth - low) / (high - low), axes).squeeze(0);
}

at::Tensor with_click_signals(const at::Tensor& image, const at::Tensor& clicks,
                              std::int64_t channels, double sigma) {
  if (clicks.dim() != 3 || clicks.size(2) != image.dim())
    throw DataError("clicks have shape " + c10::str(clicks.sizes()) + "; needed is [lists, rows, " +
                    std::to_string(image.dim()) + "]");
  std::vector<at::Tensor> parts{
      image.narrow(0, 0, std::min(channels, image.size(0))).to(at::kFloat)};
  for (const at::Tensor& list : clicks.unbind())
    parts.push_back(click_signal(list, image.sizes().slice(1), sigma).unsqueeze(0));
  return at::cat(parts);
}

}  // namespace sluice
