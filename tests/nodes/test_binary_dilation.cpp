// binary_dilation: as scipy.ndimage.binary_dilation with its default structure.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/nodes/drive.h"

using namespace sluice;

TEST_CASE("binary_dilation reaches what lies within so many steps, each channel by itself") {
  at::Tensor mask = at::zeros({2, 9, 10, 11}, at::kByte);
  mask[0][4][4][5] = 3;
  mask[1][0][0][0] = 1;
  mask[1][8][9][10] = 1;
  const auto grown = [&](std::int64_t iterations) -> at::Tensor {
    return drive("binary_dilation", {{"keys", "label"}, {"iterations", iterations}},
                 {sample_of("label", mask)})[0]
        .tensor("label");
  };
  // SciPy's counts: octahedra of 7, 25, 63 voxels, and of a corner 4, 10, 20.
  const std::int64_t whole[]{7, 25, 63}, corner[]{4, 10, 20};
  for (std::int64_t k = 1; k <= 3; ++k) {
    const at::Tensor out = grown(k);
    CHECK((out.scalar_type() == at::kByte));
    CHECK(out[0].sum().item().toLong() == whole[k - 1]);
    CHECK(out[1].sum().item().toLong() == 2 * corner[k - 1]);
    CHECK(out.max().item().toLong() == 1);
  }
  CHECK(grown(3)[0][4][6][6].item<int>() == 1);
  CHECK(grown(3)[0][4][6][7].item<int>() == 0);
}

TEST_CASE("binary_dilation of nothing is nothing, however often") {
  const at::Tensor out = drive("binary_dilation", {{"keys", "label"}, {"iterations", 48}},
                               {sample_of("label", at::zeros({1, 8, 8}))})[0]
                             .tensor("label");
  CHECK(out.sum().item<float>() == 0);
  CHECK((out.scalar_type() == at::kFloat));
}
