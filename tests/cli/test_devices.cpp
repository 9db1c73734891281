// Whole runs whose batches several devices share; the devices are played on the host.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tests/cli/device_training.h"
#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

// It also validates.
nlohmann::ordered_json graph() {
  auto g = device_training({{"channels", {4, 8}},
                            {"strides", nlohmann::json::array({2})},
                            {"num_res_units", 1},
                            {"dropout", 0.1}},
                           12, 5);
  g["nodes"].update(nlohmann::ordered_json::parse(R"({
    "val":   { "type": "synthetic", "num_samples": 3, "first": 20, "spatial_size": [48, 48],
               "rad_max": 8, "num_objs": 3, "num_seg_classes": 1, "after": "step" },
    "vup":   { "type": "to_device", "in": "val" },
    "infer": { "type": "sliding_window", "in": "vup", "net": "net", "roi_size": [32, 32],
               "sw_batch_size": 4 },
    "down":  { "type": "to_device", "in": "infer", "device": "cpu" },
    "class": { "type": "argmax", "in": "down", "keys": "pred", "spatial_dims": 2 },
    "dice":  { "type": "dice_metric", "in": "class", "spatial_dims": 2 } })"));
  return g;
}

// A run on so many played devices, into a folder of that name.
json run(const Folder& folder, const std::string& name, int devices, const std::string& more = "") {
  const std::string file = folder.write("g.json", graph().dump(2)).string();
  const auto r =
      shell::run("SLUICE_DEVICE=simulated:" + std::to_string(devices) + " $SLUICE run " + file +
                 " --quiet --threads 2 --out " + (folder.path / name).string() + " " + more);
  INFO(r.err);
  REQUIRE(r.code == 0);
  return json::parse(folder.read(name + "/summary.json"));
}

// All numbers of a file's tensors, one after the other.
std::vector<float> weights(const Folder& folder, const std::string& name) {
  const std::string file = folder.read(name + "/checkpoints/last/model.safetensors");
  std::uint64_t header = 0;
  REQUIRE(file.size() > 8);
  std::memcpy(&header, file.data(), 8);
  std::vector<float> values((file.size() - 8 - header) / 4);
  std::memcpy(values.data(), file.data() + 8 + header, values.size() * 4);
  return values;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(error / size);
}

}  // namespace

TEST_CASE("a run that devices share ends with the weights and metrics of one device's") {
  const Folder folder;
  const json one = run(folder, "one", 1), three = run(folder, "three", 3);
  CHECK(one.at("devices") == 1);
  CHECK(three.at("devices") == 3);
  CHECK(three.at("device") == "simulated");
  CHECK(three.at("steps") == one.at("steps"));
  CHECK(distance(weights(folder, "three"), weights(folder, "one")) < 1e-5);
  CHECK(three.at("metrics").at("dice.mean").at("last").get<double>() ==
        doctest::Approx(one.at("metrics").at("dice.mean").at("last").get<double>()).epsilon(1e-3));
  // Sums in another order: were the bits the same, the batch would not have been shared.
  CHECK(three.at("weights_sha256") != one.at("weights_sha256"));
  CHECK(run(folder, "again", 3).at("weights_sha256") == three.at("weights_sha256"));
  for (const char* file : {"summary.json", "profile.json", "environment.json"}) {
    CAPTURE(file);
    CHECK(json::parse(folder.read(std::string("three/") + file)).at("devices") == 3);
  }
}

TEST_CASE("run.devices takes as many as it says, all for 0, and those that are there") {
  const Folder folder;
  CHECK(run(folder, "two", 3, "--set run.devices=2").at("devices") == 2);
  CHECK(run(folder, "many", 3, "--set run.devices=8").at("devices") == 3);
  const std::string one = run(folder, "one", 1).at("weights_sha256");
  const json alone = run(folder, "alone", 3, "--set run.devices=1");
  CHECK(alone.at("devices") == 1);
  CHECK(alone.at("weights_sha256") == one);
  const auto r = shell::run("SLUICE_DEVICE=none $SLUICE run " + (folder.path / "g.json").string() +
                            " --quiet --threads 2 --out " + (folder.path / "host").string());
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json host = json::parse(folder.read("host/summary.json"));
  CHECK(host.at("device") == "cpu");
  CHECK(host.at("devices") == 1);
  CHECK(host.at("weights_sha256") == one);
}

TEST_CASE("a run that devices share goes on from its checkpoint to the same weights") {
  const Folder folder;
  const json whole = run(folder, "whole", 3);
  run(folder, "cut", 3, "--set run.epochs=1");
  const json resumed = run(folder, "cut", 3, "--resume " + (folder.path / "cut").string());
  CHECK(resumed.at("weights_sha256") == whole.at("weights_sha256"));
}
