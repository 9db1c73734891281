// The bilateral filters on the device: the bits of the host's loops, which take 16 voxels at a
// time.
#include <cstring>

#include "kernels/image/bilateral_voxel.h"
#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

constexpr int channels = 2, guides = 3, sums = 4 + channels + guides;

// 5 x 6 x 33 voxels in a frame as wide as half of the window.
BilateralCall<float> call() {
  BilateralCall<float> c;
  c.channels = channels;
  c.guides = guides;
  const int half[3] = {1, 2, 2}, of[3] = {5, 6, 33};
  for (int a = 0; a < 3; ++a) {
    c.half[a] = half[a];
    c.of[a] = of[a];
    c.space[a] = -0.2F - 0.1F * static_cast<float>(a);
  }
  c.stride[1] = of[2] + 2 * half[2];
  c.stride[0] = c.stride[1] * (of[1] + 2 * half[1]);
  c.cells = c.stride[0] * (of[0] + 2 * half[0]);
  c.color = -1.5F;
  return c;
}

void on_host(const BilateralCall<float>& given, bool backward, float* out) {
  BilateralCall<float> c = given;
  const std::int64_t n = c.voxels();
  if (backward) {
    c.to_sigmas = out;
    c.to_image = out + 4 * n;
    c.to_guide = c.to_image + channels * n;
  } else {
    c.weight = out;
    c.filtered = out + n;
  }
  std::vector<float> held(16 * sums);
  for (std::int64_t row = 0; row < c.of[0] * c.of[1]; ++row)
    for (std::int64_t z = 0; z < c.of[2]; z += 16) {
      const std::int64_t at = std::min<std::int64_t>(z, c.of[2] - 16);
      const std::int64_t p = c.cell(row / c.of[1], row % c.of[1], at);
      if (backward)
        bilateral_slopes<float, 16>(c, p, held.data());
      else
        bilateral_sums<float, 16>(c, p, held.data());
      bilateral_store<float, 16>(c, row * c.of[2] + at, 16, held.data(), backward);
    }
}

}  // namespace

TEST_CASE("bilateral filters and their gradients have the host's bits") {
  SLUICE_NEEDS_GPU();
  BilateralCall<float> c = call();
  const std::int64_t n = c.voxels(), cells = c.cells;
  const Both<float> guide(test::numbers(guides * cells, 1)),
      image(test::numbers(channels * cells, 2)), slope(test::numbers(channels * cells, 3)),
      out(test::numbers(channels * cells, 4));
  std::vector<float> inside(cells, 1);
  for (std::int64_t i = 0; i < cells; i += 7) inside[i] = 0;
  const Both<float> mask(inside);
  for (int round = 0; round < 4; ++round) {
    const bool backward = round % 2 == 1, masked = round < 2;
    CAPTURE(backward);
    CAPTURE(masked);
    c.guide = guide.host.data(), c.image = image.host.data();
    c.mask = masked ? mask.host.data() : nullptr;
    c.slope = slope.host.data(), c.out = out.host.data();
    std::vector<float> wanted(sums * n);
    on_host(c, backward, wanted.data());

    const Both<float> made{std::vector<float>(sums * n)};
    c.guide = guide.device(), c.image = image.device();
    c.mask = masked ? mask.device() : nullptr;
    c.slope = slope.device(), c.out = out.device();
    c.weight = c.to_sigmas = made.device();
    c.filtered = made.device() + n;
    c.to_image = made.device() + 4 * n;
    c.to_guide = c.to_image + channels * n;
    test::ok(test::cuda().bilateral(c, backward, nullptr));
    const std::vector<float> got = made.read();
    const std::size_t count = (backward ? sums : 1 + channels) * n;
    CHECK(std::memcmp(got.data(), wanted.data(), count * sizeof(float)) == 0);
  }
}

TEST_CASE("a bilateral filter of more channels than a thread holds is refused") {
  BilateralCall<float> c = call();
  c.channels = bilateral_most;
  CHECK(test::cuda().bilateral(c, false, nullptr) != 0);
}
