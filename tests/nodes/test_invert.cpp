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

TEST_CASE("what a crop took away comes back as 0, and an image of larger voxels reaches its end") {
  Sample s = sample_of("image", at::ones({1, 8, 8, 8}));
  const Json key = {{"keys", "image"}};
  const auto back = [&](Sample in) {
    return drive("invert", key, {std::move(in)}).at(0).tensor("image");
  };
  const Sample cut =
      drive("spatial_crop", {{"keys", "image"}, {"roi_start", {2, 1, 0}}, {"roi_end", {6, 8, 3}}},
            {s})
          .at(0);
  at::Tensor there = at::zeros({1, 8, 8, 8});
  there.slice(1, 2, 6).slice(2, 1, 8).slice(3, 0, 3).fill_(1);
  CHECK(back(cut).equal(there));
  const Sample flipped = drive("flip", {{"keys", "image"}, {"spatial_axis", 0}}, {cut}).at(0);
  CHECK(back(flipped).equal(there));
  for (const double voxel : {1.5, 2.0, 3.0}) {
    const Json coarser = {{"keys", "image"}, {"pixdim", {voxel, voxel, voxel}}};
    CHECK(back(drive("spacing", coarser, {s}).at(0)).equal(at::ones({1, 8, 8, 8})));
    // Of the crop's rim a voxel more or less is larger than before.
    const at::Tensor around = back(drive("spacing", coarser, {cut}).at(0));
    CHECK(around.slice(1, 0, 1).count_nonzero().item<std::int64_t>() == 0);
    CHECK(around.slice(3, 6).count_nonzero().item<std::int64_t>() == 0);
  }
}
