// invert: what transforms did to the last axis or took away, the padding that they had, and a
// resize undone in its own mode.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>

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

TEST_CASE("what a crop took away comes back as 0 also after a rotation, and before a padding") {
  const auto of_ones = [](const Sample& s) {
    const Field& field = s.at("image");
    Sample out;
    out.set("image", Field(at::ones_like(field.tensor), field.meta));
    return out;
  };
  const auto back = [](const Sample& s) {
    return drive("invert", {{"keys", "image"}}, {s}).at(0).tensor("image");
  };
  const Json box = {{"keys", "image"}, {"roi_start", {4, 4}}, {"roi_end", {8, 8}}};
  const Sample image = sample_of("image", at::ones({1, 12, 12}));
  const Sample turned = drive("rotate", {{"keys", "image"}, {"angle", 0.5}}, {image}).at(0);
  const Sample cut = of_ones(drive("spatial_crop", box, {turned}).at(0));
  at::Tensor inside = at::zeros({1, 12, 12});
  inside.slice(1, 4, 8).slice(2, 4, 8).fill_(1);
  Sample whole;
  whole.set("image", Field(inside, turned.at("image").meta));
  const at::Tensor there = back(cut);
  CHECK(there.equal(back(whole)));
  CHECK(there.sum().item<double>() < 25);
  // What a rotation alone does not reach has the rim's values.
  CHECK(back(of_ones(turned)).equal(at::ones({1, 12, 12})));

  const Json wide = {{"keys", "image"}, {"spatial_size", {12, 12}}};
  const Sample padded =
      drive("spatial_pad", wide, {drive("spatial_crop", box, {image}).at(0)}).at(0);
  CHECK(back(of_ones(padded)).equal(inside));
}

TEST_CASE("what was done along the last axis comes back, of pictures and of volumes") {
  const Affine affine{0, -2, 0, 5, 1.5, 0, 0, -7, 0, 0, 3, 9, 0, 0, 0, 1};
  for (const bool flat : {true, false}) {
    const at::Tensor image = flat ? at::arange(20, at::kFloat).view({1, 4, 5}) + 1
                                  : at::arange(60, at::kFloat).view({1, 3, 4, 5}) + 1;
    const auto of = [flat](Json picture, Json volume) { return flat ? picture : volume; };
    const std::pair<const char*, Json> all[] = {
        {"flip", {{"spatial_axis", -1}}},
        {"rotate90", {{"spatial_axes", of({0, 1}, {1, 2})}}},
        {"border_pad", {{"spatial_border", of({0, 0, 2, 1}, {0, 0, 0, 0, 2, 1})}}},
        {"spatial_pad", {{"spatial_size", of({4, 9}, {3, 4, 9})}}},
        {"resize", {{"spatial_size", of({4, 10}, {3, 4, 10})}, {"mode", "nearest"}}},
        {"zoom", {{"zoom", of({1, 2}, {1, 1, 2})}, {"keep_size", false}, {"mode", "nearest"}}},
        {"spacing", {{"pixdim", of({1.5, 1}, {1.5, 2, 1.5})}, {"mode", "nearest"}}},
        {"transpose", {{"indices", of({0, 2, 1}, {0, 1, 3, 2})}, {"geometry", true}}}};
    for (auto [type, params] : all) {
      CAPTURE(std::string(type));
      CAPTURE(flat);
      params["keys"] = "image";
      const Sample moved = drive(type, params, {sample_of("image", image, affine)}).at(0);
      CHECK_FALSE(moved.tensor("image").equal(image));
      const Sample back = drive("invert", {{"keys", "image"}}, {moved}).at(0);
      CHECK(back.tensor("image").equal(image));
      CHECK(back.at("image").geometry().affine == affine);
    }
  }
}

TEST_CASE("axes that were squeezed away come back, of planes and of lines") {
  const at::Tensor voxels = at::arange(12, at::kFloat) + 1;
  const auto squeezed = [](Sample s, std::int64_t dim) {
    return drive("squeeze_dim", {{"keys", "image"}, {"dim", dim}}, {std::move(s)}).at(0);
  };
  const auto back = [](Sample s) {
    return drive("invert", {{"keys", "image"}}, {std::move(s)}).at(0).tensor("image");
  };
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{1, 4, 3, 1}, {1, 4, 1, 3}, {1, 1, 4, 3}}) {
    const at::Tensor image = voxels.view(shape);
    const std::int64_t thin = std::find(shape.begin() + 1, shape.end(), 1) - shape.begin();
    const Sample plane = squeezed(sample_of("image", image), thin);
    CHECK(plane.tensor("image").dim() == 3);
    const Json last = {{"keys", "image"}, {"spatial_axis", -1}};
    CHECK(back(drive("flip", last, {plane}).at(0)).equal(image));
  }
  const at::Tensor image = voxels.view({1, 1, 12, 1});
  CHECK(back(squeezed(squeezed(sample_of("image", image), 1), 2)).equal(image));
}

TEST_CASE("a resize with aligned corners is undone with aligned corners") {
  const Sample s = sample_of("image", at::arange(20, at::kFloat).square().view({1, 5, 4}));
  const auto resized = [](const Sample& in, const Json& size) {
    const Json params = {
        {"keys", "image"}, {"spatial_size", size}, {"mode", "bilinear"}, {"align_corners", true}};
    return drive("resize", params, {in}).at(0);
  };
  const Sample small = resized(s, {3, 3});
  const Sample back =
      drive("invert", {{"keys", "image"}, {"resize_mode", "bilinear"}}, {small}).at(0);
  CHECK(back.tensor("image").equal(resized(small, {5, 4}).tensor("image")));
}

TEST_CASE("what sampled is sampled back with the padding that it had, as MONAI's inverse does it") {
  const at::Tensor x = (at::arange(8, at::kFloat) + 5).view({1, 8, 1}).expand({1, 8, 8});
  const auto first_row = [&](const char* padding) {
    const Json params = {
        {"keys", "image"}, {"angle", 0.785}, {"mode", "bilinear"}, {"padding_mode", padding}};
    const Sample turned = drive("rotate", params, {sample_of("image", x.contiguous())}).at(0);
    const Json back = {{"keys", "image"}, {"mode", "bilinear"}};
    return drive("invert", back, {turned}).at(0).tensor("image")[0][0];
  };
  const at::Tensor zeros = at::tensor({0.0, 1.41, 4.72, 4.32, 4.32, 4.73, 1.42, 0.0}, at::kFloat);
  CHECK(first_row("zeros").allclose(zeros, 0, 0.01));
  CHECK(first_row("border").min().item<float>() > 5);
}

TEST_CASE("behind a crop of a coarser grid values fade to 0 over one of its voxels") {
  const Sample image = sample_of("image", at::ones({1, 9, 9, 9}));
  const Json coarser = {{"keys", "image"}, {"pixdim", 2.0}, {"mode", "bilinear"}};
  const Json box = {{"keys", "image"}, {"roi_start", {1, 0, 0}}, {"roi_end", {4, 5, 5}}};
  const Sample cut = drive("spatial_crop", box, {drive("spacing", coarser, {image}).at(0)}).at(0);
  const Json back = {{"keys", "image"}, {"mode", "bilinear"}};
  const at::Tensor got = drive("invert", back, {cut}).at(0).tensor("image");
  const at::Tensor fading = at::tensor({0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0}, at::kFloat);
  CHECK(got.allclose(fading.view({1, 9, 1, 1}).expand({1, 9, 9, 9})));
}

TEST_CASE("what sampled with align_corners is sampled back with it, as MONAI's inverse does it") {
  const Json key = {{"keys", "image"}};
  const auto with = [&](Json params) {
    params.update(key);
    params.update({{"mode", "bilinear"}, {"padding_mode", "reflection"}, {"align_corners", true}});
    return params;
  };
  const auto back = [](const Sample& s) {
    return drive("invert", {{"keys", "image"}, {"mode", "bilinear"}}, {s}).at(0).tensor("image")[0];
  };
  // MONAI 1.6.1's numbers; the last axis has one voxel, where PyTorch's grid is half a voxel off.
  const at::Tensor squares = at::arange(9, at::kFloat).square().view({1, 9, 1, 1});
  Sample s = sample_of("image", squares.expand({1, 9, 2, 1}).contiguous());
  const at::Tensor line =
      at::tensor({0.0, 1.6667, 4.6667, 9.0, 16.6667, 25.6667, 36.0, 49.6667, 49.6667}, at::kFloat);
  const Sample coarse = drive("spacing", with({{"pixdim", {1.5, 1, 1}}}), {s}).at(0);
  CHECK(back(coarse).select(1, 1).squeeze(1).allclose(line, 0, 1e-3));
  const Json target = {{1.5, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  const Sample there = drive("spatial_resample", with({{"dst_affine", target}}), {s}).at(0);
  CHECK(back(there).select(1, 1).squeeze(1).allclose(line, 0, 1e-3));
  s.set("grid", coarse.at("image"));
  const Sample matched = drive("resample_to_match", with({{"key_dst", "grid"}}), {s}).at(0);
  CHECK(back(matched).select(1, 1).squeeze(1).allclose(line, 0, 1e-3));

  const Sample picture = sample_of("image", at::arange(25, at::kFloat).pow(1.5).view({1, 5, 5}));
  const at::Tensor row = at::tensor({19.9684, 7.9832, 8.2710, 11.2656, 16.7718}, at::kFloat);
  const Sample turned = drive("rotate", with({{"angle", 0.5}}), {picture}).at(0);
  CHECK(back(turned)[0].allclose(row, 0, 1e-3));
  const Sample mapped = drive("affine", with({{"rotate_params", {0.5}}}), {picture}).at(0);
  CHECK(back(mapped)[0].allclose(row, 0, 1e-3));
}
