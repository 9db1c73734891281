// Filters of images with more than 2^31 voxels, in the long form: 9 GB and some minutes each.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <functional>

#include "kernels/image/bilateral.h"
#include "kernels/image/filters.h"
#include "kernels/image/grid_sampling.h"
#include "kernels/image/median.h"
#include "tests/campaign.h"

using namespace sluice;

namespace {

// Zeros but for the last voxels; pages that nothing writes to take no memory.
constexpr std::int64_t n = (std::int64_t{1} << 31) + 4096, edge = 512;

struct Large {
  void* room = mmap(nullptr, n * 4, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  at::Tensor image, end;
  Large() {
    REQUIRE(room != MAP_FAILED);
    image = at::from_blob(room, {1, 1, n}, at::kFloat);
    end = image.narrow(2, n - 2 * edge, 2 * edge);
    at::Tensor last = image.narrow(2, n - edge, edge);
    last.copy_((at::arange(edge, at::kFloat) * 0.7).sin());
  }
  Large(const Large&) = delete;
  ~Large() { munmap(room, n * 4); }
};

using Filter = std::function<at::Tensor(const at::Tensor&)>;
const std::pair<const char*, Filter> filters[] = {
    {"median", [](const at::Tensor& x) { return median_filter(x, {2}); }},
    {"gaussian",
     [](const at::Tensor& x) {
       return separable_filtering(x, {gaussian_kernel(at::ones({}), 4, "erf")});
     }},
    {"bilateral",
     [](const at::Tensor& x) {
       return bilateral(x, x, at::ones({1}), at::ones({}), Neighbours::clamped);
     }},
    {"sobel", [](const at::Tensor& x) { return sobel(x, 3, {0}, false, "replicate"); }},
};

}  // namespace

TEST_CASE("filters reach every voxel of an image of more than 2^31") {
  if (!campaign::at_length()) return;
  const Large large;
  campaign::Cases cases("large_images", 0, std::size(filters) + 1);
  for (const auto& [name, filter] : filters) {
    if (!cases.next()) return;
    CAPTURE(name);
    const at::Tensor out = filter(large.image);
    REQUIRE(out.size(2) == n);
    // As that of the end alone, apart from where that one's own beginning is near.
    CHECK(at::equal(out.narrow(2, n - edge - 64, edge + 64).contiguous(),
                    filter(large.end.contiguous()).narrow(2, edge - 64, edge + 64).contiguous()));
    CHECK(out.narrow(2, 64, 4096).abs().max().item<float>() == 0);
  }
  if (!cases.next()) return;
  // One point of order 1 is pushed to the last two voxels.
  kernels::GridRule rule;
  const at::Tensor grid = at::full({1, 1, 1}, static_cast<double>(n) - 1.5, at::kDouble);
  const at::Tensor pushed = grid_push(at::full({1, 1, 1}, 8., at::kDouble), grid, {n}, rule);
  CHECK(pushed[0][0][n - 1].item<double>() == 4);
  CHECK(pushed[0][0][n - 2].item<double>() == 4);
  CHECK(pushed.sum().item<double>() == 8);
}
