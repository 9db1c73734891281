// Metrics and losses on a device's lane: nothing is read, and so waited for, in the firing itself.
#include <doctest/doctest.h>

#include <deque>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "tests/nodes/drive.h"

using namespace sluice;

namespace {

Sample pair(at::Tensor pred, at::Tensor label) {
  Sample s = sample_of("pred", std::move(pred));
  auto meta = std::make_shared<Meta>();
  meta->path = "/data/case_1.nii.gz";
  s.set("label", Field(std::move(label), std::move(meta)));
  return s;
}
std::vector<Sample> volumes() {
  at::manual_seed(4);
  std::vector<Sample> out;
  for (int i = 0; i < 5; ++i)
    out.push_back(pair(at::randn({2, 3, 5, 4, 6}), at::randint(0, 3, {2, 1, 5, 4, 6}, at::kByte)));
  return out;
}
std::vector<Sample> scores() {
  at::manual_seed(5);
  std::vector<Sample> out;
  for (int i = 0; i < 5; ++i)
    out.push_back(pair(at::randn({7, 3}), at::randint(0, 3, {7}, at::kLong)));
  return out;
}

using Values = std::vector<std::pair<std::string, double>>;

// All firings are queued before the device has done the first.
void check_late(const std::string& type, const Json& params, const std::vector<Sample>& samples) {
  CAPTURE(type);
  Driver host(type, params), device(type, params);
  Values told, told_late;
  const auto join = [](Values& all, const Values& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  std::deque<LateFiring> queued;
  for (const Sample& s : samples) {
    join(told, host.fire({s}).logs);
    queued.emplace_back(device, s);
  }
  for (LateFiring& firing : queued) join(told_late, firing.done());
  CHECK(told_late == told);
  const Values values = host.flush();
  REQUIRE_FALSE(values.empty());
  for (const auto& [name, value] : values) CHECK_FALSE(std::isnan(value));
  CHECK(device.flush() == values);
}

// Says the same as on the host, but when the device is done and not before.
void check_refused(const std::string& type, const Json& params, const Sample& bad) {
  CAPTURE(type);
  std::string why;
  try {
    Driver(type, params).fire({bad});
  } catch (const DataError& e) {
    why = e.what();
  }
  REQUIRE_FALSE(why.empty());
  Driver device(type, params);
  std::optional<LateFiring> late;
  REQUIRE_NOTHROW(late.emplace(device, bad));
  CHECK_THROWS_WITH_AS(late->done(), why.c_str(), DataError);
  if (!type.ends_with("_loss")) return;
  const Sample made = sample_of("loss", at::tensor(1.5f));
  REQUIRE_NOTHROW(late.emplace(device, bad, &made));
  CHECK(late->emitted().tensor("loss").is_same(made.tensor("loss")));
  CHECK_THROWS_WITH_AS(late->done(), why.c_str(), DataError);
}

}  // namespace

TEST_CASE("metrics on a device's lane read nothing until it is done, and say the same") {
  check_late("dice_metric", {}, volumes());
  check_late("dice_metric", {{"include_background", false}}, volumes());
  for (const char* type : {"accuracy", "confusion_matrix", "rocauc"})
    check_late(type, {}, scores());
  std::vector<Sample> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(sample_of("loss", at::tensor(0.3f * i)));
  check_late("running_mean", {{"every", 2}}, losses);
}

TEST_CASE("a label that is no class is named when the device is done, in the same words") {
  Sample volume = volumes()[0], row = scores()[0];
  volume.at("label").tensor.view(-1)[200] = 7;
  row.at("label").tensor[4] = 3;
  const Json indices = {{"to_onehot_y", true}, {"softmax", true}}, masks = {{"to_onehot_y", true}};
  for (const char* type : {"dice_loss", "dice_ce_loss", "dice_focal_loss"})
    for (const Json& params : {indices, masks}) check_refused(type, params, volume);
  check_refused("cross_entropy_loss", {}, row);
  check_refused("dice_metric", {}, volume);
  for (const char* type : {"accuracy", "confusion_matrix", "rocauc"}) check_refused(type, {}, row);
}

TEST_CASE("losses are recorded for a device unless classes have weights") {
  const Firing none;
  for (const char* type : {"dice_loss", "dice_ce_loss", "dice_focal_loss", "cross_entropy_loss"}) {
    CHECK(Driver(type).node().recordable(none).has_value());
    CHECK(!Driver(type, {{"weight", {1, 2, 3}}}).node().recordable(none));
  }
  CHECK(Driver("sum_loss").node().recordable(none).has_value());
  CHECK(!Driver("dice_metric").node().recordable(none));
}

TEST_CASE("cross_entropy_loss on a device's lane is that of the host, ignored labels included") {
  Sample s = scores()[0];
  s.at("label").tensor[4] = -100;
  Driver host("cross_entropy_loss");
  const at::Tensor expected = host.fire({s}).samples()[0].tensor("loss");
  struct Nowhere final : Stream {
    PointPtr mark() override { return nullptr; }
    void wait(const Point&) override {}
  } stream;
  const std::function<bool()> stopped = [] { return false; };
  Firing firing(at_index(0), 0, {{std::make_shared<const Sample>(s)}}, stopped);
  firing.on(&stream);
  Driver device("cross_entropy_loss");
  device.node().process(firing);
  CHECK(at::equal(firing.outs().at(0).sample->tensor("loss"), expected));
}
