// The registration graphs on real volumes: the same weights whatever the threads and cuts.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

struct Registration {
  Folder folder;
  const std::string data = shell::test_data();
  bool ready = !data.empty();

  Registration() {
    if (!ready) MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
  }
  shell::Result sluice(const std::string& command) const {
    return shell::run("cd " + folder.path.string() + " && $SLUICE " + command);
  }
  shell::Result volumes(const std::string& more) const {
    return sluice("run " SLUICE_SOURCE_DIR
                  "/graphs/register_hippocampus.json --quiet --set vars.root=" +
                  data +
                  "/Task04_Hippocampus --set vars.size=[16,16,16] "
                  "--set models.net.channels=[4,4,4,4] --set models.net.unet_out_channels=4 "
                  "--set models.net.final_conv_channels=4 --set run.epochs=2 "
                  "--set +nodes.train.limit=7 --set +nodes.val.limit=4 " +
                  more);
  }
  // What was measured behind the network; what needs no network may be known earlier.
  std::vector<std::string> after(const std::string& run) const {
    std::vector<std::string> found;
    std::istringstream lines(folder.read(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (line.find("\"after.") != std::string::npos) found.push_back(line);
    return found;
  }
  std::string weights(const std::string& run) const {
    return json::parse(folder.read(run + "/summary.json")).at("weights_sha256").dump();
  }
};

}  // namespace

TEST_CASE("registration gives one set of weights for any data threads, and where it was cut") {
  const Registration t;
  if (!t.ready) return;
  const auto whole = t.volumes("--out whole --threads 2");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  const json summary = json::parse(t.folder.read("whole/summary.json"));
  CHECK(summary.at("steps") == 6);  // of seven subjects three pairs an epoch
  REQUIRE(t.volumes("--out one --threads 1").code == 0);
  REQUIRE(t.volumes("--out eight --threads 8").code == 0);
  CHECK(t.weights("one") == t.weights("whole"));
  CHECK(t.weights("eight") == t.weights("whole"));
  REQUIRE(t.volumes("--out cut --set run.epochs=1").code == 0);
  REQUIRE(t.sluice("run --quiet --resume cut --set run.epochs=2").code == 0);
  CHECK(t.weights("cut") == t.weights("whole"));
  CHECK(t.after("cut") == t.after("whole"));
  CHECK(t.after("whole").size() == 6);
}

TEST_CASE("a pair is registered from trained weights, and its field is written as vectors") {
  const Registration t;
  if (!t.ready) return;
  REQUIRE(t.volumes("--out trained --set run.epochs=1").code == 0);
  const std::string images = t.data + "/Task04_Hippocampus/imagesTr/hippocampus_";
  const auto r =
      t.sluice("run " SLUICE_SOURCE_DIR
               "/graphs/register_pair.json --quiet --out pair "
               "--set vars.weights=trained --set vars.steps=3 --set vars.size=[16,16,16] "
               "--set models.net.channels=[4,4,4,4] "
               "--set models.net.unet_out_channels=4 "
               "--set models.net.final_conv_channels=4 "
               "--set vars.moving=" +
               images + "001.nii.gz --set vars.fixed=" + images + "003.nii.gz");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(json::parse(t.folder.read("pair/summary.json")).at("steps") == 3);
  for (const char* name : {"ddf", "warped", "fixed"})
    CHECK(std::filesystem::exists(t.folder.path / "pair/registered" /
                                  (std::string("pair_000_") + name + ".nii.gz")));
}
