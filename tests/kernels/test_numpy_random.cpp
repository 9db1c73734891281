// The golden orders come from numpy 2.4.6 and MONAI 1.6.1.
#include <doctest/doctest.h>

#include <numeric>

#include "kernels/lists/numpy_random.h"

using namespace sluice;

static std::vector<int> shuffled(int n, std::uint32_t seed) {
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  NumpyRandom(seed).shuffle(v);
  v.resize(std::min<std::size_t>(v.size(), 12));
  return v;
}

TEST_CASE("A shuffle is numpy's RandomState.shuffle") {
  CHECK(shuffled(41, 0) == std::vector<int>{25, 35, 29, 4, 10, 31, 27, 11, 36, 30, 28, 20});
  CHECK(shuffled(10, 7) == std::vector<int>{8, 5, 0, 2, 1, 9, 7, 3, 6, 4});
  CHECK(shuffled(260, 12345) ==
        std::vector<int>{227, 181, 57, 203, 216, 47, 52, 68, 222, 104, 120, 117});
  CHECK(shuffled(1, 0) == std::vector<int>{0});
}

TEST_CASE("A decathlon list is split as MONAI splits it") {
  const Split split = split_indices(41, 0.2, 0);
  CHECK(split.validation == std::vector<std::size_t>{25, 35, 29, 4, 10, 31, 27, 11});
  CHECK(split.training.size() == 33);
  CHECK(split_indices(41, 0, 0).validation.empty());
  CHECK(split_indices(41, 1, 0).training.empty());
}
