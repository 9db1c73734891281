// worsen_label against SciPy's binary_dilation and binary_erosion, and which samples it changes.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <set>

#include "engine/base/error.h"
#include "tests/nodes/drive.h"

using namespace sluice;

namespace {

Sample labelled(const std::string& name) {
  at::Tensor label = at::zeros({1, 9, 9}, at::kByte);
  label[0].narrow(0, 2, 5).narrow(1, 2, 3).fill_(1);
  label[0].narrow(0, 2, 5).narrow(1, 5, 2).fill_(2);
  Sample s = sample_of("label", label);
  s.name = name;
  return s;
}
at::Tensor worse(const std::string& name, std::int64_t from, std::int64_t to, double prob = 1,
                 std::uint64_t index = 0) {
  return drive("worsen_label", {{"voxels", {from, to}}, {"prob", prob}}, {labelled(name)},
               at_index(index))[0]
      .tensor("label");
}

}  // namespace

TEST_CASE("worsen_label dilates or erodes as SciPy does, and new voxels have neighbours' labels") {
  // SciPy's counts of a 5 x 5 square: 1, 2 voxels dilated 45, 69; eroded 9, 1.
  std::set<int> one, two;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor a = worse("case_" + std::to_string(i), 1, 1),
                     b = worse("case_" + std::to_string(i), 2, 2);
    one.insert(a.gt(0).sum().item<int>());
    two.insert(b.gt(0).sum().item<int>());
    if (a.gt(0).sum().item<int>() == 45) {
      CHECK(a[0][4][7].item<int>() == 2);
      CHECK(a[0][4][1].item<int>() == 1);
      CHECK(a[0][1][6].item<int>() == 2);
    }
    CHECK(a[0][4][4].item<int>() == 1);
    CHECK(a[0][4][5].item<int>() == 2);  // labels do not grow into each other
  }
  CHECK(one == std::set<int>{9, 45});
  CHECK(two == std::set<int>{1, 69});
}

TEST_CASE("worsen_label changes a share of the samples, the same ones in every epoch") {
  int changed = 0;
  const at::Tensor before = labelled("a").tensor("label");
  for (int i = 0; i < 200; ++i) {
    const std::string name = "case_" + std::to_string(i);
    const at::Tensor first = worse(name, 1, 2, 0.4, 0), later = worse(name, 1, 2, 0.4, 77);
    CHECK(at::equal(first, later));
    changed += !at::equal(first, before);
  }
  CHECK(changed > 50);
  CHECK(changed < 110);
}

TEST_CASE("the noise-robust loss is Dice with squares for as many epochs as it is told") {
  Sample s = sample_of("pred", at::sin(at::arange(2 * 3 * 16, at::kFloat)).view({2, 3, 4, 4}));
  s.set("label",
        Field(at::arange(32).remainder(3).view({2, 1, 4, 4}).to(at::kFloat), s.at("pred").meta));
  const auto of = [&](double gamma, std::int64_t warmup, std::uint32_t epoch) {
    Driver node(
        "nr_dice_loss",
        {{"gamma", gamma}, {"warmup_epochs", warmup}, {"to_onehot_y", true}, {"softmax", true}});
    return node.fire({s}, at_index(0, epoch)).samples().at(0).tensor("loss").item<double>();
  };
  CHECK(of(1.5, 2, 0) == of(2, 0, 0));
  CHECK(of(1.5, 2, 1) == of(2, 0, 0));
  CHECK(of(1.5, 2, 2) == of(1.5, 0, 0));
  CHECK(of(1.5, 0, 0) > of(2, 0, 0));
}
