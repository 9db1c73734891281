// Filters of images with more than 2^31 voxels, in the long form: 9 GB a volume, a minute or more
// each.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <fstream>
#include <functional>
#include <string>

#include "kernels/image/bilateral.h"
#include "kernels/image/filters.h"
#include "kernels/image/grid_sampling.h"
#include "kernels/image/median.h"
#include "tests/campaign.h"

using namespace sluice;

namespace {

// Zeros but for the last planes; pages that nothing writes to take no memory.
constexpr std::int64_t planes = 64, rows = 4096, row = 8200, n = planes * rows * row;
static_assert(n > std::int64_t{1} << 31);

struct Large {
  void* room = mmap(nullptr, n * 4, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  at::Tensor image, end;  // end: the last planes
  Large() {
    REQUIRE(room != MAP_FAILED);
    image = at::from_blob(room, {1, 1, planes, rows, row}, at::kFloat);
    end = image.narrow(2, planes - 8, 8);
    at::Tensor last = image.narrow(2, planes - 3, 3);
    last.copy_((at::arange(last.numel(), at::kFloat) * 0.7).sin_().view(last.sizes()));
  }
  Large(const Large&) = delete;
  ~Large() { munmap(room, n * 4); }
};

using Filter = std::function<at::Tensor(const at::Tensor&)>;
// `volumes`: that it makes, besides the image.
const struct {
  const char* name;
  int volumes;
  Filter filter;
} filters[] = {
    {"median", 2,
     [](const at::Tensor& x) {
       return median_filter(x, {1, 1, 1});
     }},
    {"gaussian", 1,
     [](const at::Tensor& x) {
       return separable_filtering(x, {gaussian_kernel(at::ones({}), 4, "erf")});
     }},
    {"bilateral", 3,
     [](const at::Tensor& x) {
       return bilateral(x, x, at::ones({3}), at::ones({}), Neighbours::clamped);
     }},
    {"sobel", 2, [](const at::Tensor& x) { return sobel(x, 3, {0}, false, "zeros"); }},
};

// Bytes of memory that can be had.
double available() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return 1024 * std::stod(line.substr(13));
  return 0;
}

}  // namespace

TEST_CASE("filters reach every voxel of an image of more than 2^31") {
  if (!campaign::at_length()) return;
  const Large large;
  campaign::Cases cases("large_images", 0, std::size(filters) + 1);
  for (const auto& [name, volumes, filter] : filters) {
    const double needs = (volumes + 0.3) * 4 * n;
    if (available() < needs) {
      MESSAGE("skipped: " << std::string(name) << " needs " << needs / 1e9 << " GB");
      continue;
    }
    if (!cases.next()) return;
    CAPTURE(std::string(name));
    const at::Tensor out = filter(large.image);
    REQUIRE(out.sizes() == large.image.sizes());
    // As that of the end alone, apart from where that one's own beginning is near.
    CHECK(at::equal(out.narrow(2, planes - 4, 4), filter(large.end).narrow(2, 4, 4)));
    CHECK(out.narrow(2, 1, 2).abs().max().item<float>() == 0);
    CHECK(out.select(2, planes - 1).abs().max().item<float>() > 0.1);
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
