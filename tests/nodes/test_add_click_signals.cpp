// add_click_signals against MONAI 1.6.1's AddClickSignalsd.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>

#include "engine/base/error.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

Sample clicked(const at::Tensor& points) {
  Sample s = sample_of("image", at::arange(120, at::kFloat).view({1, 12, 10}));
  s.set("foreground", sample_of("foreground", points).at("foreground"));
  return s;
}
std::vector<Sample> patches(const at::Tensor& points, std::int64_t size = 6) {
  return drive("add_click_signals", {{"bb_size", size}}, {clicked(points)});
}

}  // namespace

TEST_CASE("add_click_signals makes MONAI's patches, of clicks in the image") {
  const auto out =
      patches(at::tensor({0.0, 0.0, 5.7, 9.0, 11.0, 3.0, 20.0, 1.0, 4.0, 7.0}).view({5, 2}));
  REQUIRE(out.size() == 4);
  const double sums[]{990, 1854, 3150, 1494};
  const std::int64_t own[][2]{{0, 0}, {3, 5}, {5, 3}, {3, 3}};
  const double others[]{0, 1, 0, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    const at::Tensor x = out[i].tensor("image");
    REQUIRE(x.sizes() == at::IntArrayRef{3, 6, 6});
    CHECK(x[0].sum().item<double>() == sums[i]);
    CHECK(x[1].sum().item<double>() == 1);
    CHECK(x[1][own[i][0]][own[i][1]].item<double>() == 1);
    CHECK(x[2].sum().item<double>() == others[i]);
  }
  CHECK(out[1].tensor("image")[2][2][3].item<double>() == 1);
  CHECK(out[3].tensor("image")[2][4][5].item<double>() == 1);
}

TEST_CASE("load_points reads a JSON list of lists, and says what is none") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    std::ofstream(folder.path / "clicks.txt") << text;
    auto meta = std::make_shared<Meta>();
    meta->path = (folder.path / "clicks.txt").string();
    Sample s;
    s.set("foreground", Field(at::Tensor(), std::move(meta)));
    return drive("load_points", {{"keys", "foreground"}}, {s})[0].tensor("foreground");
  };
  CHECK(read("[[1, 2], [3.5, -4]]").equal(at::tensor({1.0F, 2.0F, 3.5F, -4.0F}).view({2, 2})));
  for (const char* wrong : {"[]", "[[1, 2], [3]]", "[[1, \"x\"]]", "[1, 2]", "[[1, 2]"}) {
    INFO(wrong);
    CHECK_THROWS_WITH_AS(read(wrong), doctest::Contains("clicks.txt: points are a JSON list"),
                         Error);
  }
}

TEST_CASE("add_click_signals refuses images without a click, and smaller than a patch") {
  CHECK_THROWS_WITH_AS(patches(at::tensor({20.0, 1.0}).view({1, 2})),
                       doctest::Contains("no click of \"foreground\" lies in the image"), Error);
  CHECK_THROWS_WITH_AS(patches(at::tensor({2.0, 1.0}).view({1, 2}), 11),
                       doctest::Contains("smaller than a patch of 11"), Error);
}
