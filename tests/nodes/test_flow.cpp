#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <thread>

#include "drive.h"
#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/tensor_device.h"
#include "kernels/augment/pending.h"

using namespace sluice;

namespace {

Sample named(const std::string& name, at::Tensor image) {
  Sample s = sample_of("image", std::move(image));
  s.name = name;
  return s;
}

SamplePtr shared(Sample s) { return std::make_shared<const Sample>(std::move(s)); }

}  // namespace

TEST_CASE("batch stacks members in order and keeps each one's geometry") {
  std::vector<Sample> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(named("case" + std::to_string(i), at::full({1, 2, 3, 4}, i)));
    members.back().set(
        "label", Field(at::full({1, 2, 3, 4}, 10 + i, at::kByte), members.back().at("image").meta));
  }
  const Sample out = Driver("batch", {{"size", 3}}).gather(members).samples().at(0);
  CHECK(out.name == "case0,case1,case2");
  CHECK(out.tensor("image").sizes() == at::IntArrayRef{3, 1, 2, 3, 4});
  CHECK((out.tensor("label").scalar_type() == at::kByte));
  CHECK(out.at("image").meta.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(at::equal(out.tensor("image")[i], members[i].tensor("image")));
    CHECK(at::equal(out.tensor("label")[i], members[i].tensor("label")));
    CHECK(out.at("label").meta[i] == members[i].at("label").meta[0]);
  }
}

TEST_CASE("batch names the samples and the shapes that do not fit") {
  const std::vector<Sample> members{named("a", at::zeros({1, 2, 2, 2})),
                                    named("b", at::zeros({1, 2, 3, 2}))};
  CHECK_THROWS_WITH_AS(Driver("batch").gather(members),
                       "field \"image\" differs within a batch: a has [1, 2, 2, 2] float32 on cpu, "
                       "b has [1, 2, 3, 2] float32 on cpu",
                       DataError);
}

TEST_CASE("batch refuses samples with different fields") {
  Sample more = named("b", at::zeros({1, 2}));
  more.set("label", more.at("image"));
  const char* const why =
      "the samples of a batch have different fields: a has no \"label\", which b has";
  const Sample one = named("a", at::zeros({1, 2}));
  CHECK_THROWS_WITH_AS(Driver("batch").gather({one, more}), why, DataError);
  CHECK_THROWS_WITH_AS(Driver("batch").gather({more, one}), why, DataError);
}

TEST_CASE("a long batch's name is shortened and says how many more") {
  std::vector<Sample> members;
  for (int i = 0; i < 40; ++i)
    members.push_back(named("hippocampus_" + std::to_string(100 + i), at::zeros({1, 1})));
  const Sample out = Driver("batch").gather(members).samples().at(0);
  CHECK(out.name.starts_with("hippocampus_100,hippocampus_101,"));
  CHECK(out.name.ends_with(",+25"));
  const auto apart = Driver("decollate").fire({out}).samples();
  REQUIRE(apart.size() == members.size());
  for (std::size_t i = 0; i < apart.size(); ++i) CHECK(apart[i].name == members[i].name);
}

TEST_CASE("decollate gives members their names back, also those with commas") {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"Smith, John"},
        {"a,1", "b"},
        {"a", "b,", ",c"},
        {std::string(300, 'a') + "1", std::string(300, 'a') + "2", "b"}}) {
    std::vector<Sample> members;
    for (const std::string& name : names) members.push_back(named(name, at::zeros({1, 1})));
    const auto apart =
        Driver("decollate").fire({Driver("batch").gather(members).samples().at(0)}).samples();
    REQUIRE(apart.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) CHECK(apart[i].name == names[i]);
  }
}

TEST_CASE("buffer, cache and to_device on the CPU pass the very sample on") {
  const SamplePtr sample = shared(named("a", at::zeros({1, 2})));
  for (const char* type : {"buffer", "cache", "to_device"})
    CHECK(Driver(type).fire_ports({{sample}}, at_index(0)).outs.at(0).sample == sample);
}

TEST_CASE("to_device copies every field but those that stay") {
  OpenContext context;
  context.device = simulated_tensors();
  context.stays = {"voxels"};
  const auto node = Registry::global().make_node("to_device", Json::object());
  node->open(context);
  const auto stream = context.device->stream(false);
  Sample sample = named("a", at::full({1, 4, 4, 4}, 3.0));
  sample.set("voxels", Field(at::full({5}, 7, at::kInt), sample.at("image").meta));
  const std::function<bool()> stopped = [] { return false; };
  Firing firing(at_index(0), 0, {{shared(sample)}}, stopped);
  firing.on(stream.get());
  node->process(firing);
  const SamplePtr out = firing.outs().at(0).sample;
  CHECK(out->tensor("voxels").is_same(sample.tensor("voxels")));
  CHECK(!out->tensor("image").is_same(sample.tensor("image")));
  stream->mark()->wait();
  CHECK(at::equal(out->tensor("image"), sample.tensor("image")));
}

TEST_CASE("to_device says plainly that there is no GPU") {
  if (at::hasCUDA()) return;
  try {
    Driver("to_device", {{"device", "cuda"}});
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.exit == Exit::gpu);
  }
}

TEST_CASE("select_items keeps just the named fields") {
  Sample sample = named("a", at::zeros({1, 2}));
  sample.set("label", sample.at("image"));
  const Sample out = drive("select_items", {{"keys", "label"}}, {sample}).at(0);
  CHECK(out.fields().size() == 1);
  CHECK(out.name == "a");
  CHECK(out.tensor("label").is_same(sample.tensor("image")));
  CHECK_THROWS_AS(drive("select_items", {{"keys", "mask"}}, {sample}), DataError);
}

TEST_CASE("a cache's hit is the stored sample itself, and skipped items stay skipped") {
  Driver cache("cache");
  CacheStore& store = *cache.node().store();
  CHECK_FALSE(store.find(5));
  const SamplePtr sample = shared(named("a", at::zeros({1, 2})));
  store.put(5, {sample, ""});
  store.put(6, {nullptr, "filtered"});
  CHECK(store.find(5)->sample == sample);
  CHECK(store.find(6)->sample == nullptr);
  CHECK(store.find(6)->skip_reason == "filtered");
  store.put(5, {shared(named("b", at::zeros({1, 2}))), ""});
  CHECK(store.find(5)->sample == sample);
}

TEST_CASE("a cache stores a view's own bytes, not the volume behind it") {
  Driver cache("cache", {{"budget", 100}});
  const at::Tensor volume = at::arange(4096, at::kFloat).view({1, 16, 16, 16});
  const at::Tensor crop = volume.narrow(1, 3, 2).narrow(2, 1, 2).narrow(3, 5, 2);
  cache.node().store()->put(0, {shared(named("a", crop)), ""});
  const auto hit = cache.node().store()->find(0);
  REQUIRE(hit);
  CHECK(at::equal(hit->sample->tensor("image"), crop));
  CHECK(hit->sample->tensor("image").storage().nbytes() == 32);
}

TEST_CASE(
    "where its readers can widen them a cache keeps whole numbers in a byte, and counts those") {
  OpenContext context;
  context.narrow = true;
  Driver cache("cache", Json::object(), context);
  CacheStore& store = *cache.node().store();
  Sample sample = named("a", at::ones({1, 4, 5, 6}));
  sample.set("ct", {at::rand({1, 4, 5, 6}), sample.fields().front().second.meta});
  const std::string label = sample.fields().front().first;
  store.put(0, {shared(sample), ""});
  CHECK(store.held().bytes == 120 + 480);
  const SamplePtr kept = store.find(0)->sample;
  CHECK((kept->tensor(label).scalar_type() == at::kByte));
  REQUIRE(kept->at(label).pending);
  CHECK(at::equal(kept->at(label).pending->done(false), sample.tensor(label)));
  CHECK(kept->tensor("ct").const_data_ptr() == sample.tensor("ct").const_data_ptr());
  CHECK_FALSE(kept->at("ct").pending);
}

TEST_CASE("a cache over its budget refuses further items, counts them and keeps the others") {
  Driver cache("cache", {{"budget", 100}});
  CacheStore& store = *cache.node().store();
  for (std::uint64_t i = 0; i < 5; ++i) store.put(i, {shared(named("a", at::zeros({10}))), ""});
  CHECK(store.find(0));
  CHECK(store.find(1));
  CHECK_FALSE(store.find(2));
  store.put(7, {shared(named("small", at::zeros({5}))), ""});
  CHECK(store.find(7));
  const auto logs = cache.fire({named("a", at::zeros({1}))}).logs;
  REQUIRE(logs.size() == 1);
  CHECK(logs[0] == std::pair<std::string, double>("refused", 3));
  CHECK(cache.fire({named("a", at::zeros({1}))}).logs.empty());
}

TEST_CASE("a cache serves eight threads at once") {
  Driver cache("cache");
  CacheStore& store = *cache.node().store();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        const std::uint64_t item = (i * 7 + t * 13) % 200;
        if (const auto hit = store.find(item)) {
          if (hit->sample->name != std::to_string(item)) ++wrong;
        } else {
          store.put(item, {shared(named(std::to_string(item), at::zeros({4}))), ""});
        }
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("flow nodes declare their part in the engine's contract") {
  const Catalogue& all = Registry::global().catalogue();
  CHECK(all.find("buffer")->credits_param == "size");
  CHECK(all.find("cache")->is_cache);
  CHECK(all.find("cache")->is_gate);
  CHECK(all.find("batch")->arity == Arity::gather);
  CHECK(all.find("batch")->count_param == "size");
  CHECK(all.find("batch")->credits_param == "ahead");
  CHECK(all.find("shuffle")->arity == Arity::shuffle);
  CHECK(all.find("to_device")->lane_kind == LaneKind::copy);
}
