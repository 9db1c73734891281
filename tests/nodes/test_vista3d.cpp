// vista3d's prompts: what is drawn, what no point changes, what is refused. Its numbers beside
// MONAI's are in tests/golden/nets/vista3d.json.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/filled.h"

using namespace sluice;

namespace {

// Classes 0, 1, 2 in an image of 4 x 3 x 5.
at::Tensor three_classes() { return at::arange(60, at::kInt).remainder(3).view({1, 4, 3, 5}); }

Sample asked(const Json& params, std::uint64_t index, const at::Tensor& label = three_classes()) {
  return drive("sample_prompt_pairs", params, {sample_of("label", label)}, at_index(index)).at(0);
}

std::vector<std::int64_t> numbers(const at::Tensor& t) {
  const at::Tensor l = t.to(at::kLong).contiguous();
  return {l.const_data_ptr<std::int64_t>(), l.const_data_ptr<std::int64_t>() + l.numel()};
}

// That each row of the prompts lies where its label says; counts points by label.
std::map<std::int64_t, int> checked_points(const Sample& s, const at::Tensor& label,
                                           std::int64_t special) {
  const auto classes = numbers(s.tensor("class_vector"));
  const at::Tensor coords = s.tensor("point_coords"), labels = s.tensor("point_labels");
  std::map<std::int64_t, int> counts;
  for (std::int64_t k = 0; k < std::ssize(classes); ++k) {
    const auto c = classes[static_cast<std::size_t>(k)];
    CHECK(s.tensor("target")[k].equal(label[0].eq(c).to(at::kByte)));
    for (std::int64_t i = 0; i < labels.size(1); ++i) {
      const auto what = labels[k][i].item<std::int64_t>();
      ++counts[what];
      if (what < 0) continue;
      const auto at = numbers(coords[k][i]);
      const bool inside = label[0][at[0]][at[1]][at[2]].item<int>() == c;
      CHECK(what == (c == special ? 2 : 0) + (inside ? 1 : 0));
    }
  }
  return counts;
}

Json net_params(const std::vector<std::string>& prompts) {
  return {{"prompts", prompts},
          {"encoder_embed_dim", 8},
          {"n_classes", 6},
          {"last_supported", 3},
          {"blocks_down", {1, 1}}};
}

std::shared_ptr<Network> filled_net(const std::vector<std::string>& prompts) {
  auto net = Registry::global().make_network("vista3d", net_params(prompts));
  fill(*net);
  net->train(false);
  return net;
}

}  // namespace

TEST_CASE("prompts are classes in their order, with points inside and outside of them") {
  const Json params{{"label_set", {1, 2, 7}}, {"max_point", 4}, {"special_index", {2}}};
  std::map<std::int64_t, int> all;
  int without = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Sample s = asked(params, i);
    CHECK(numbers(s.tensor("class_vector")) == std::vector<std::int64_t>{1, 2, 7});
    CHECK(s.tensor("point_labels")[2].eq(-1).all().item<bool>());  // a class that is not there
    CHECK(s.tensor("point_labels").size(1) <= 8);
    auto counts = checked_points(s, three_classes(), 2);
    without += counts[0] + counts[1] + counts[2] + counts[3] == 0;
    for (const auto& [what, n] : counts) all[what] += n;
  }
  for (const int what : {0, 1, 2, 3}) CHECK(all[what] > 0);
  CHECK(std::abs(without / 300.0 - 0.2) < 0.1);  // drop_point_prob
}

TEST_CASE("there is one point inside as often as MONAI's normal draw says") {
  const Json params{{"label_set", {1}}, {"max_point", 6}, {"drop_point_prob", 0}};
  int ones = 0;
  constexpr int n = 600;
  for (std::uint64_t i = 0; i < n; ++i)
    ones += asked(params, i).tensor("point_labels").eq(1).sum().item<int>() == 1;
  const double share = std::erf(1 / (3 * std::sqrt(2.0)));  // of |N(0, 3)| < 1
  CHECK(std::abs(ones / static_cast<double>(n) - share) < 4 * std::sqrt(share * (1 - share) / n));
}

TEST_CASE("numbers of prompts are bounded, and a sample without any is refused") {
  const auto classes = [](const Json& more, std::uint64_t i) {
    Json params{{"label_set", {0, 1, 2, 5, 6}}};
    params.update(more);
    return numbers(asked(params, i).tensor("class_vector"));
  };
  std::map<std::vector<std::int64_t>, int> seen;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ++seen[classes({{"max_foreprompt", 1}}, i)];
    CHECK(classes({{"max_prompt", 2}, {"max_backprompt", nullptr}}, i) ==
          std::vector<std::int64_t>{1, 2});
    CHECK(classes({{"max_backprompt", nullptr}}, i) == std::vector<std::int64_t>{0, 1, 2, 5, 6});
    CHECK(classes({{"max_backprompt", 0}}, i) == std::vector<std::int64_t>{1, 2});
  }
  CHECK(seen.size() == 6);  // one of 1 and 2, one of 0, 5 and 6
  CHECK_THROWS_WITH_AS(asked({{"label_set", {5}}, {"max_backprompt", 0}}, 0),
                       doctest::Contains("has none of the classes of label_set"), DataError);
}

TEST_CASE("without points vista3d answers as for classes alone, or nothing") {
  const at::Tensor image = sines({1, 1, 8, 4, 8}), classes = at::tensor({4, 1}).view({1, 2}),
                   coords = at::ones({1, 2, 3, 3}), none = at::full({1, 2, 3}, -1),
                   second = at::tensor({-1, -1, -1, 1, 0, -1}).view({1, 2, 3});
  const at::NoGradGuard no_grad;
  const at::Tensor wanted = filled_net({"class"})->forward({image, classes}, 1)[0];
  const auto both = filled_net({"class", "point"});
  CHECK(at::allclose(both->forward({image, classes, coords, none}, 1)[0], wanted));
  const at::Tensor mixed = both->forward({image, classes, coords, second}, 1)[0];
  CHECK(at::allclose(mixed[0][0], wanted[0][0]));
  CHECK(!at::allclose(mixed[0][1], wanted[0][1]));
  const at::Tensor points = filled_net({"point"})->forward({image, classes, coords, second}, 1)[0];
  CHECK(points[0][0].eq(-9999).all().item<bool>());
  CHECK(points[0][1].gt(-9999).all().item<bool>());
}

TEST_CASE("prompts that do not fit vista3d are refused") {
  const at::Tensor image = sines({2, 1, 4, 4, 4});
  const auto net = filled_net({"class"});
  CHECK_THROWS_WITH_AS(net->forward({image, at::tensor({6, 0}).view({2, 1})}, 1),
                       "vista3d: classes go from 0 to 5", DataError);
  CHECK_THROWS_WITH_AS(net->forward({image, at::zeros({2})}, 1),
                       "vista3d takes \"class_vector\" as [2, any], got [2]", DataError);
  Json params = net_params({"class"});
  params["encoder_embed_dim"] = 12;
  CHECK_THROWS_WITH_AS(Registry::global().make_network("vista3d", params),
                       "vista3d: encoder_embed_dim must be a multiple of 8, found 12", Error);
}
