// Interactive segmentation as runs do it, with the smallest network and volumes that are made.
#include <doctest/doctest.h>

#include "tests/cli/shell.h"

using nlohmann::json;

namespace {

const char* const tiny_clicks = R"({
  "run": { "epochs": 2, "seed": 5, "checkpoint": { "every_epochs": 1 } },
  "models": { "net": { "type": "basic_unet", "spatial_dims": 2, "in_channels": 3, "out_channels": 1,
                       "features": [2, 2, 2, 2, 2, 2] } },
  "parts": { "clicked": { "in": "cases", "out": "signal", "nodes": {
    "split":  { "type": "split_slices", "in": "cases", "min_voxels": 12 },
    "seed":   { "type": "add_initial_seed_point", "in": "split" },
    "signal": { "type": "add_guidance_signal", "in": "seed" } } } },
  "nodes": {
    "train":  { "type": "synthetic", "num_samples": 3, "spatial_size": [32, 32, 16], "rad_max": 6,
                "rad_min": 4, "num_seg_classes": 1 },
    "pre":    { "part": "clicked", "in": "train" },
    "mix":    { "type": "shuffle", "in": "pre", "window": 8 },
    "batch":  { "type": "batch", "in": "mix", "size": 4 },
    "clicks": { "type": "interact", "in": "batch", "net": "net", "times": 3,
                "body": [ { "type": "activations", "sigmoid": true },
                          { "type": "find_discrepancy_regions" },
                          { "type": "add_random_guidance" }, { "type": "add_guidance_signal" } ] },
    "fwd":    { "type": "model", "in": "clicks", "net": "net" },
    "loss":   { "type": "dice_loss", "in": "fwd", "sigmoid": true, "squared_pred": true },
    "step":   { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 },
    "val":    { "type": "synthetic", "num_samples": 1, "spatial_size": [32, 32, 16], "rad_max": 6,
                "rad_min": 4, "num_seg_classes": 1, "seed": 9, "after": "step" },
    "vpre":   { "part": "clicked", "in": "val" },
    "vbatch": { "type": "batch", "in": "vpre", "size": 5 },
    "vclicks": { "type": "interact", "in": "vbatch", "net": "net", "times": 2,
                 "probability": "always", "emit_at": [0, 2],
                 "body": [ { "type": "activations", "sigmoid": true },
                           { "type": "find_discrepancy_regions" },
                           { "type": "add_random_guidance" },
                           { "type": "add_guidance_signal" } ] },
    "vlabels": { "type": "as_discrete", "in": "vclicks", "keys": ["pred_0", "pred_2"],
                 "threshold": 0 },
    "dice0":   { "type": "dice_metric", "in": "vlabels", "keys": ["pred_0", "label"],
                 "spatial_dims": 2 },
    "dice2":   { "type": "dice_metric", "in": "vlabels", "keys": ["pred_2", "label"],
                 "spatial_dims": 2 } } })";

struct TinyClicks {
  shell::Folder folder;
  TinyClicks() { folder.write("g.json", tiny_clicks); }
  shell::Result sluice(const std::string& words) const {
    return shell::run("cd " + folder.path.string() + "\n$SLUICE " + words);
  }
  json summary(const std::string& run) const { return folder.summary(run); }
  std::string weights(const std::string& run) const { return folder.weights(run); }
};

}  // namespace

TEST_CASE("clicks do not depend on data threads, and a run that is interrupted ends the same") {
  const TinyClicks t;
  for (const char* threads : {"1", "2", "8"}) {
    CAPTURE(threads);
    REQUIRE(t.sluice("run g.json --quiet --out t" + std::string(threads) + " --threads " + threads)
                .code == 0);
    CHECK(t.weights("t" + std::string(threads)) == t.weights("t1"));
  }
  CHECK(t.weights("t1") != "none");
  const json metrics = t.summary("t1")["metrics"];
  CHECK(metrics.contains("dice0.mean"));
  CHECK(metrics.contains("dice2.mean"));

  REQUIRE(t.sluice("run g.json --quiet --out r --set run.epochs=1").code == 0);
  REQUIRE(t.sluice("run --resume r --quiet --set run.epochs=2").code == 0);
  CHECK(t.weights("r") == t.weights("t1"));

  // Long enough to be ended in its middle: by a kill between checkpoints, and by a cut in an epoch.
  const std::string longer = "run g.json --quiet --set run.epochs=40 --out ";
  REQUIRE(t.sluice(longer + "whole").code == 0);
  for (const auto& [signal, code] : {std::pair{"KILL", "137"}, {"TERM", "143"}}) {
    const std::string run = signal;
    CAPTURE(run);
    REQUIRE(t.sluice(longer + run + " & p=$!\nfor i in $(seq 400); do ls " + run +
                     "/checkpoints/* >/dev/null 2>&1 && break; sleep 0.02; done\n"
                     "sleep 0.2; kill -" +
                     run + " $p; wait $p; [ $? = " + code + " ]")
                .code == 0);
    CHECK(t.weights(run) != t.weights("whole"));
    REQUIRE(t.sluice("run --resume " + run + " --quiet").code == 0);
    CHECK(t.weights(run) == t.weights("whole"));
  }
}

TEST_CASE("with no corrections a run is that of the graph without interact, to the bit") {
  const TinyClicks t;
  REQUIRE(t.sluice("run g.json --quiet --out none --set nodes.clicks.times=0").code == 0);
  REQUIRE(t.sluice("run g.json --quiet --out without --set nodes.clicks.disabled=true").code == 0);
  REQUIRE(t.sluice("run g.json --quiet --out with").code == 0);
  CHECK(t.weights("none") == t.weights("without"));
  CHECK(t.weights("none") != t.weights("with"));
}

TEST_CASE("what is wrong with an interaction is said before it runs") {
  const TinyClicks t;
  const auto said = [&](const std::string& where, const json& value) {
    json g = json::parse(tiny_clicks);
    g[json::json_pointer(where)] = value;
    t.folder.write("bad.json", g.dump());
    const shell::Result r = t.sluice("check bad.json");
    CHECK(r.code == 2);
    return r.err;
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  holds(said("/nodes/clicks/times", 1001), "\"times\": expected 0 to 1000, found 1001");
  holds(said("/nodes/clicks/times", "15"), "expected int, found \"15\"");
  holds(said("/nodes/clicks/body/0", {{"type", "cache"}}), "expected a transform, found \"cache\"");
  holds(said("/nodes/clicks/body/0", {{"type", "split_slices"}}),
        "expected a transform, found \"split_slices\"");
  holds(said("/nodes/clicks/body/0", {{"type", "add_guidance_signals"}}),
        "did you mean \"add_guidance_signal\"?");
  holds(said("/nodes/clicks/body/3/sigma", "2"), "expected float, found \"2\"");
  holds(said("/nodes/dice0/keys/0", "pred_1"), "\"dice0\" needs the field \"pred_1\"");
  holds(said("/models/net/in_channels", 1), "takes 1 channel, but \"image\" has 3");
  CHECK(t.sluice("check g.json").code == 0);
}

TEST_CASE("the graphs with clicks train on real volumes, and a user's click is taken") {
  const std::string data = shell::test_data();
  if (data.empty()) {
    MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    return;
  }
  const TinyClicks t;
  const std::string small =
      " --quiet --set run.epochs=1 --set vars.volumes=1 --set "
      "vars.val_volumes=1 --set nodes.clicks.times=1 --set vars.root=" +
      data + "/Task04_Hippocampus --out ";
  for (const std::string name : {"deepgrow", "deepgrow3d", "deepedit"}) {
    CAPTURE(name);
    const auto r = t.sluice("run " SLUICE_SOURCE_DIR "/graphs/" + name + ".json" + small + name);
    CHECK_MESSAGE(r.code == 0, r.err);
    CHECK(t.summary(name)["metrics"].contains("dice5.mean"));
  }
  const std::string predict = "run " SLUICE_SOURCE_DIR
                              "/graphs/deepgrow_predict.json --quiet --set vars.weights=deepgrow3d "
                              "--set vars.image=" +
                              data + "/Task04_Hippocampus/imagesTr/hippocampus_001.nii.gz ";
  CHECK(t.sluice(predict + "--out seen --set vars.foreground=[[17,25,17]]").code == 0);
  CHECK(std::filesystem::exists(t.folder.path / "seen/segmentations/hippocampus_001_seg.nii.gz"));
  const auto outside = t.sluice(predict + "--no-out --set vars.foreground=[[40,52,18]]");
  CHECK(outside.code == 3);
  CHECK(outside.err.find("the click [40, 52, 18] is no voxel of \"image\"") != std::string::npos);
}
