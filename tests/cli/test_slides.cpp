// The graphs of slides, on small slides that make_slides.json writes: training, whole slides, cuts.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/campaign.h"
#include "tests/cli/shell.h"
#include "tests/vast_slide.h"

using nlohmann::json;

namespace {

struct Slides {
  shell::Folder folder;
  shell::Result sluice(const std::string& words) const {
    return shell::run("cd " + folder.path.string() + " && $SLUICE " + words);
  }
  static std::string graph(const std::string& name) {
    return SLUICE_SOURCE_DIR "/graphs/" + name + ".json";
  }
  shell::Result make() const {
    return sluice("run " + graph("make_slides") +
                  " --quiet --no-out --set vars.size=1024 --set vars.levels=4 --set "
                  "vars.regions=12 --set vars.region=96 --set nodes.train.num_slides=2 --set "
                  "nodes.test.num_slides=1");
  }
  // A network of an eighth of ResNet-18's time: patches of 32, two steps an epoch.
  shell::Result train(const std::string& more) const {
    return sluice("run " + graph("camelyon") +
                  " --quiet --set vars.region=96 --set vars.patch=32 --set vars.pool=1 --set "
                  "vars.batch=54 --set run.step_threads=1 " +
                  more);
  }
  json summary(const std::string& run) const { return folder.summary(run); }
  std::string weights(const std::string& run) const { return folder.weights(run); }
};

}  // namespace

TEST_CASE("slides are made, trained on and scored, the same for any data threads and cut") {
  const Slides t;
  const auto made = t.make();
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto whole = t.train("--out one --threads 1");
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  REQUIRE(t.train("--out three --threads 3").code == 0);
  CHECK(t.weights("one") != "none");
  CHECK(t.weights("three") == t.weights("one"));
  CHECK(t.summary("one")["metrics"].contains("val_accuracy.mean"));
  REQUIRE(t.train("--out cut --set run.epochs=1 --set nodes.step.lr_schedule=cosine --set "
                  "+nodes.step.total_steps=2")
              .code == 0);
  const auto resumed = t.sluice("run --resume cut --quiet --set run.epochs=2");
  INFO(resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(t.weights("cut") == t.weights("one"));

  const std::string infer = "run " + Slides::graph("camelyon_infer") +
                            " --quiet --set vars.weights=one --set vars.patch=32 --set "
                            "vars.pool=1 --set vars.level=3 --set nodes.nms.prob_threshold=0.3 ";
  for (const char* threads : {"1", "3"}) {
    const auto scored = t.sluice(infer + "--out map" + threads + " --threads " + threads);
    INFO(scored.err);
    REQUIRE(scored.code == 0);
    CHECK(t.folder.read("map" + std::string(threads) + "/maps/slide_10.npy") ==
          t.folder.read("map1/maps/slide_10.npy"));
    CHECK(t.folder.read("map" + std::string(threads) + "/detections.csv") ==
          t.folder.read("map1/detections.csv"));
  }
  CHECK(t.summary("map1")["metrics"].contains("froc.mean"));
  CHECK(std::filesystem::exists(t.folder.path / "map1/overviews/slide_10.png"));
  CHECK(json::parse(t.folder.read("map1/curves/froc.json"))["kind"] == "froc");
}

TEST_CASE("a slide that is damaged or gone ends a run with 3, which names it") {
  const Slides t;
  REQUIRE(t.make().code == 0);
  const auto slide = t.folder.path / "data/slides/train/images/slide_00.tif";
  std::filesystem::resize_file(slide, std::filesystem::file_size(slide) / 2);
  auto r = t.train("--no-out");
  CHECK(r.code == 3);
  CHECK(r.err.find("slide_00.tif") != std::string::npos);
  std::filesystem::remove(slide);
  r = t.train("--no-out");
  CHECK(r.code == 3);
  CHECK(r.err.find("slide_00.tif") != std::string::npos);
}

TEST_CASE("a graph goes over a slide of 4.3 gigapixels in less than a gigabyte") {
  // SLUICE_LONG=1: over all of it, else over a corner.
  const Slides t;
  const VastSlide vast{65536};
  vast.write(t.folder.path / "vast.tif");
  const int offset = campaign::at_length() ? 0 : 65536 - 16 * 512, places = (65536 - offset) / 512;
  t.folder.write("g.json", R"({ "run": { "threads": 2 }, "nodes": {
    "slides": { "type": "file_patterns", "root": ".", "patterns": { "image": "*.tif" } },
    "grid":   { "type": "slide_grid", "in": "slides", "size": 512, "mask_level": 0, "offset": )" +
                               std::to_string(offset) + R"( },
    "region": { "type": "read_region", "in": "grid", "size": 512, "center": false,
                "tile_cache_mb": 64 } } })");
  const auto r = t.sluice("run g.json --quiet --out r");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json profile = json::parse(t.folder.read("r/profile.json"));
  CHECK(profile.at("nodes").at("region").at("items") == places * places);
  CHECK(profile.at("process").at("most_mb") < 1074);
}
