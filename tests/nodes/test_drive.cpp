#include <ATen/ops/arange.h>
#include <doctest/doctest.h>

#include "tests/nodes/drive.h"

using namespace sluice;

TEST_CASE("A driven node sees its parameters, its input and its own draws") {
  const Sample in = sample_of("image", at::arange(3, at::kFloat).reshape({1, 3, 1, 1}));
  const auto out = drive("rand_flip", {{"keys", "image"}, {"prob", 1.0}}, {in});
  REQUIRE(out.size() == 1);
  CHECK(out[0].tensor("image").flatten()[0].item<float>() == 2);
}

TEST_CASE("A driven node refuses a parameter that the graph's parser would refuse") {
  CHECK_THROWS_AS(Driver("rand_flip", {{"prob", 2.0}}), std::logic_error);
  CHECK_THROWS_AS(Driver("rand_flip", {{"probability", 0.5}}), std::logic_error);
}
