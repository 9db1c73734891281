// invert: a resize that came last, undone in its own mode.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/nodes/drive.h"

using namespace sluice;

TEST_CASE("invert undoes a resize by area as MONAI does, then the rest") {
  const Sample s = sample_of("image", at::arange(24, at::kFloat).view({1, 4, 3, 2}));
  const Sample flipped = drive("flip", {{"keys", "image"}, {"spatial_axis", 0}}, {s}).at(0);
  const Sample small =
      drive("resize", {{"keys", "image"}, {"spatial_size", {2, 3, 2}}}, {flipped}).at(0);
  CHECK(small.tensor("image").select(1, 0).equal(s.tensor("image").narrow(1, 2, 2).mean(1)));
  const auto back = [&](const Json& more) {
    Json params = {{"keys", "image"}, {"mode", "bilinear"}};
    params.update(more);
    return drive("invert", params, {small}).at(0);
  };
  // By area each of two voxels is the mean that they were; by lines it is not.
  const at::Tensor means = s.tensor("image").view({1, 2, 2, 3, 2}).mean(2, true);
  const Sample by_area = back({{"resize_mode", "area"}});
  CHECK(by_area.tensor("image").allclose(means.expand({1, 2, 2, 3, 2}).reshape({1, 4, 3, 2})));
  CHECK(by_area.at("image").geometry().affine == s.at("image").geometry().affine);
  CHECK(by_area.at("image").geometry().history.empty());
  CHECK_FALSE(back(Json::object()).tensor("image").allclose(by_area.tensor("image")));
}
