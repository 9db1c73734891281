// graphs/detect.json on real volumes: it learns boxes, the same ones whatever the threads and cuts.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

using nlohmann::json;

TEST_CASE("a detector trains on boxes, the same for any data threads, and where it was cut") {
  const std::string data = shell::test_data();
  if (data.empty()) {
    MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    return;
  }
  const shell::Folder folder;
  const auto sluice = [&](const std::string& command) {
    return shell::run("cd " + folder.path.string() + " && $SLUICE " + command);
  };
  const std::string graph =
      "run " SLUICE_SOURCE_DIR "/graphs/detect.json --quiet --set vars.root=" + data +
      "/Task04_Hippocampus --set vars.size=[16,16,16] --set models.net.widen_factor=0.125 "
      "--set +nodes.train.limit=5 --set +nodes.val.limit=2 --set run.epochs=2 ";
  const auto weights = [&](const std::string& run) {
    return json::parse(folder.read(run + "/summary.json")).at("weights_sha256").dump();
  };
  const auto whole = sluice(graph + "--out whole --threads 2");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  CHECK(json::parse(folder.read("whole/summary.json")).at("steps") == 4);
  CHECK(folder.read("whole/metrics.jsonl").find("coco.class_posterior_mAP") != std::string::npos);
  REQUIRE(sluice(graph + "--out one --threads 1").code == 0);
  CHECK(weights("one") == weights("whole"));
  REQUIRE(sluice(graph + "--out cut --set run.epochs=1").code == 0);
  REQUIRE(sluice("run --quiet --resume cut --set run.epochs=2").code == 0);
  CHECK(weights("cut") == weights("whole"));
}
