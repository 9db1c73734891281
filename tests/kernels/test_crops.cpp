// Crops, pads, flips, foreground boxes and picks against ATen's own and MONAI's rules.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "kernels/image/foreground.h"
#include "kernels/image/spatial.h"
#include "tests/golden/spatial.h"

using namespace sluice;

TEST_CASE("every flip and permutation is ATen's, for every element size") {
  const at::Tensor v = at::arange(2 * 40 * 5 * 37, at::kInt).view({2, 40, 5, 37});
  const std::array<std::array<int, 3>, 6> orders{
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  for (const auto& order : orders)
    for (int flips = 0; flips < 8; ++flips) {
      Reorder r{order, {bool(flips & 1), bool(flips & 2), bool(flips & 4)}};
      at::Tensor expected = v.permute({0, order[0] + 1, order[1] + 1, order[2] + 1});
      for (int d = 0; d < 3; ++d)
        if (r.flip[d]) expected = expected.flip(d + 1);
      const at::Tensor out = reorder(v, r);
      CHECK(out.is_contiguous());
      CHECK(at::equal(out, expected));
      for (auto type : {at::kByte, at::kShort, at::kDouble})
        CHECK(at::equal(reorder(v.to(type), r), expected.to(type)));
      // The affine says where each output voxel was: try a corner.
      const Vec3 from = map_point(reorder_affine(r, shape_of(v)), {1, 2, 3});
      CHECK(out[0][1][2][3].item<int>() ==
            v[0][int(from[0])][int(from[1])][int(from[2])].item<int>());
    }
}

TEST_CASE("pictures are flipped, turned, cropped and padded as ATen does it") {
  const at::Tensor v = at::arange(2 * 40 * 37, at::kInt).view({2, 40, 37, 1});
  const Box part{{3, 5, 0}, {20, 30, 1}};
  const auto cut = [](const at::Tensor& t) { return t.slice(1, 3, 23).slice(2, 5, 35); };
  for (const bool turned : {false, true})
    for (int flips = 0; flips < 8; ++flips) {
      const Reorder r{turned ? std::array{1, 0, 2} : std::array{0, 1, 2},
                      {bool(flips & 1), bool(flips & 2), bool(flips & 4)}};
      const auto expected = [&](at::Tensor t) {
        if (turned) t = t.transpose(1, 2);
        for (int d = 0; d < 2; ++d)
          if (r.flip[d]) t = t.flip(d + 1);
        return t;
      };
      CHECK(reorder(v, r).is_contiguous());
      CHECK(at::equal(reorder(v, r), expected(v)));
      CHECK(at::equal(reorder(v, r, part), expected(cut(v))));
    }
  CHECK(at::equal(crop_pad(v, part), cut(v)));
  CHECK(crop_pad(v, part).is_contiguous());
  CHECK(at::equal(crop_pad(v, {{-2, -1, 0}, {43, 40, 1}}, 7),
                  at::constant_pad_nd(v, {0, 0, 1, 2, 2, 1}, 7)));
}

TEST_CASE("quarter turns are torch.rot90's") {
  const at::Tensor v = at::arange(2 * 4 * 5 * 6, at::kFloat).view({2, 4, 5, 6});
  for (int k = -1; k < 6; ++k)
    for (const auto& [a, b] : std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {1, 2}, {2, 0}})
      CHECK(at::equal(reorder(v, quarter_turns(k, a, b)), at::rot90(v, k, {a + 1, b + 1})));
}

TEST_CASE("quarter turns' affines are MONAI's") {
  for (const auto& c : spatial_cases("rotate90")) {
    const auto axes = c["params"]["axes"].get<std::vector<int>>();
    const at::Tensor v = made_volume();
    const Reorder r = quarter_turns(c["params"]["k"], axes[0], axes[1]);
    check_golden(reorder(v, r), c);
    CHECK(near(multiply(c["affine"].get<Affine>(), reorder_affine(r, shape_of(v))),
               c["out_affine"].get<Affine>(), 1e-6));
  }
}

TEST_CASE("a box inside crops, one around pads, one beside is all padding") {
  const at::Tensor v = at::arange(2 * 4 * 5 * 6, at::kShort).view({2, 4, 5, 6});
  CHECK(at::equal(crop_pad(v, {{1, 0, 2}, {2, 5, 3}}), v.narrow(1, 1, 2).narrow(3, 2, 3)));
  const at::Tensor padded = crop_pad(v, {{-1, 0, -2}, {6, 5, 9}}, 7);
  CHECK(at::equal(padded, at::constant_pad_nd(v, {2, 1, 0, 0, 1, 1}, 7)));
  CHECK(crop_pad(v, {{10, 0, 0}, {2, 2, 2}}, 3).eq(3).all().item<bool>());
  CHECK(crop_pad(v, {{-9, -9, -9}, {2, 2, 2}}, 3).eq(3).all().item<bool>());
  CHECK_THROWS_AS(crop_pad(v, {{0, 0, 0}, {2, 0, 2}}), DataError);
}

TEST_CASE("centre boxes are MONAI's centre crop and pad, also for odd sizes") {
  CHECK(centre_box({5, 4, 7}, {4, 3, 7}).start == Shape3{0, 1, 0});
  CHECK(centre_box({5, 4, 7}, {8, 7, 10}).start == Shape3{-1, -1, -1});
  CHECK(centre_box({5, 4, 7}, {8, 7, 10}, false).start == Shape3{0, 0, 0});
}

TEST_CASE("the foreground box is the smallest, for all types and channels") {
  for (auto type : {at::kFloat, at::kByte, at::kBool, at::kShort, at::kDouble}) {
    const at::Tensor v = at::zeros({2, 12, 10, 40}, type);
    CHECK_FALSE(bounding_box_of_positive(v));
    v[0][7][2][35] = 1;
    CHECK(*bounding_box_of_positive(v) == Box{{7, 2, 35}, {1, 1, 1}});
    v[1][3][4][5] = 1;
    v[0][4][1][39] = 1;
    v[0][5][3][20] = 1;
    CHECK(*bounding_box_of_positive(v) == Box{{3, 1, 5}, {5, 4, 35}});
  }
  const at::Tensor below = at::full({1, 3, 3, 3}, -1.0f);
  CHECK_FALSE(bounding_box_of_positive(below));
}

TEST_CASE("the foreground box agrees with a search in random volumes") {
  at::manual_seed(1);
  for (int i = 0; i < 40; ++i) {
    const at::Tensor v = at::rand({1, 9, 8, 17}) - (0.95 + 0.002 * i);
    const auto box = bounding_box_of_positive(v);
    const at::Tensor where = at::nonzero(v > 0);
    CHECK(box.has_value() == (where.size(0) > 0));
    if (!box) continue;
    for (int d = 0; d < 3; ++d) {
      CHECK(box->start[d] == where.select(1, d + 1).min().item<std::int64_t>());
      CHECK(box->start[d] + box->size[d] - 1 == where.select(1, d + 1).max().item<std::int64_t>());
    }
  }
}

TEST_CASE("crop centres are corrected as MONAI corrects them") {
  // 20^3, crop 8^3, box [5:9, 6:12, 3:18]: the centres MONAI 1.6.1 draws with seed 0.
  for (const Shape3& c :
       {Shape3{4, 4, 13}, Shape3{13, 4, 16}, Shape3{4, 11, 13}, Shape3{15, 11, 14}})
    CHECK(corrected_start(c, {8, 8, 8}, {20, 20, 20}) == Shape3{c[0] - 4, c[1] - 4, c[2] - 4});
  CHECK(corrected_start({0, 19, 3}, {8, 8, 8}, {20, 20, 20}) == Shape3{0, 12, 0});
  CHECK(corrected_start({0, 19, 18}, {7, 7, 5}, {20, 20, 20}) == Shape3{0, 13, 15});
  CHECK(corrected_start({0, 19, 5}, {20, 20, 30}, {20, 20, 10}) == Shape3{0, 0, 0});
  CHECK(corrected_start({0, 8, 4}, {9, 9, 9}, {9, 9, 9}) == Shape3{0, 0, 0});
}

TEST_CASE("the k-th voxel of a pool is the k-th in memory order") {
  at::manual_seed(2);
  const at::Tensor label = (at::rand({1, 6, 7, 8}) > 0.7).to(at::kByte) * 3;
  const at::Tensor image = at::rand({1, 6, 7, 8}) - 0.5;
  const at::Tensor foreground = foreground_bits(label);
  const std::pair<at::Tensor, at::Tensor> pools[]{
      {foreground, label[0] != 0},
      {background_bits(label, foreground, nullptr, 0), label[0] == 0},
      {background_bits(label, foreground, &image, 0.1), (label[0] == 0) & (image[0] > 0.1)}};
  for (const auto& [bits, mask] : pools) {
    const VoxelBits pool(bits, {6, 7, 8});
    const at::Tensor where = at::nonzero(mask);
    REQUIRE(static_cast<std::int64_t>(pool.count()) == where.size(0));
    for (std::uint64_t k = 0; k < pool.count(); ++k) {
      const Shape3 v = pool.voxel(k);
      for (int d = 0; d < 3; ++d) CHECK(v[d] == where[std::int64_t(k)][d].item<std::int64_t>());
    }
  }
}

TEST_CASE("of a one-hot label the first channel is no foreground") {
  const at::Tensor label = at::zeros({3, 2, 2, 2});
  label[0].fill_(1);
  CHECK(VoxelBits(foreground_bits(label), {2, 2, 2}).count() == 0);
  label[2][1][1][1] = 1;
  CHECK(VoxelBits(foreground_bits(label), {2, 2, 2}).voxel(0) == Shape3{1, 1, 1});
}

TEST_CASE("sizes fall back to the image's, and a wrong count is a data error") {
  CHECK(fall_back({8}, {4, 5, 6}, 3) == Shape3{8, 8, 8});
  CHECK(fall_back({8, 0, -1}, {4, 5, 6}, 3) == Shape3{8, 5, 6});
  CHECK(fall_back({8, 9}, {4, 5, 1}, 2) == Shape3{8, 9, 1});
  CHECK_THROWS_AS(fall_back({8, 9}, {4, 5, 6}, 3), DataError);
}
