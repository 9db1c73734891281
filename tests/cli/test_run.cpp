#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tests/cli/tiny_training.h"

using nlohmann::json;
using shell::Folder;

namespace {

// Hippocampus in small, with a buffer that no batch takes from.
const char* const small = R"({
  "vars": { "root": "", "ahead": 4, "epochs": 2, "seed": 1 },
  "run": { "epochs": "@epochs", "seed": "@seed", "step_threads": 2 },
  "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 3,
                       "channels": [4, 8], "strides": [2], "num_res_units": 1 } },
  "nodes": {
    "train": { "type": "decathlon", "root": "@root", "split": "training", "shuffle": true, "limit": 13 },
    "load":  { "type": "load_image", "in": "train" },
    "norm":  { "type": "normalize_intensity", "in": "load", "nonzero": true },
    "kept":  { "type": "cache", "in": "norm" },
    "pad":   { "type": "spatial_pad", "in": "kept", "spatial_size": [48, 64, 48] },
    "crop":  { "type": "rand_crop_by_pos_neg_label", "in": "pad", "label_key": "label",
               "spatial_size": [16, 16, 16], "num_samples": 2 },
    "flip":  { "type": "rand_flip", "in": "crop", "prob": 0.5, "spatial_axis": 0 },
    "noise": { "type": "rand_gaussian_noise", "in": "flip", "prob": 0.5 },
    "batch": { "type": "batch", "in": "noise", "size": 4 },
    "ahead": { "type": "buffer", "in": "batch", "size": "@ahead" },
    "fwd":   { "type": "model", "in": "ahead", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 },
    "val":   { "type": "decathlon", "root": "@root", "split": "validation", "after": "step", "limit": 3 },
    "vload": { "type": "load_image", "in": "val" },
    "vnorm": { "type": "normalize_intensity", "in": "vload", "nonzero": true },
    "infer": { "type": "sliding_window", "in": "vnorm", "net": "net", "roi_size": [32, 32, 32] },
    "dice":  { "type": "dice_metric", "in": "infer", "include_background": false }
  }
})";

struct Small {
  Folder folder;
  std::string graph, root, flags;
  bool ready;
  Small() {
    const std::string data = shell::test_data();
    ready = !data.empty();
    if (!ready) MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    graph = folder.write("small.json", small).string();
    flags = " --quiet --set vars.root=" + data + "/Task04_Hippocampus ";
  }
  std::string out(const std::string& name) const { return (folder.path / name).string(); }
  shell::Result run(const std::string& more) const {
    return shell::run("$SLUICE run " + graph + flags + more);
  }
  json summary(const std::string& name) const {
    return json::parse(folder.read(name + "/summary.json"));
  }
};

}  // namespace

TEST_CASE("weights do not depend on data threads, buffer sizes or batches ahead") {
  Small s;
  if (!s.ready) return;
  std::set<std::string> hashes;
  const char* const variants[] = {"--threads 1",
                                  "--threads 2",
                                  "--threads 8",
                                  "--threads 8 --set vars.ahead=1",
                                  "--threads 2 --set vars.ahead=32",
                                  "--threads 1 --set nodes.batch.ahead=32"};
  int n = 0;
  for (const char* v : variants) {
    const std::string out = "run" + std::to_string(n++);
    const auto r = s.run(std::string(v) + " --out " + s.out(out));
    INFO(r.err);
    REQUIRE(r.code == 0);
    hashes.insert(s.summary(out).at("weights_sha256"));
  }
  CHECK(hashes.size() == 1);
  const auto r = s.run("--set vars.seed=2 --out " + s.out("other"));
  REQUIRE(r.code == 0);
  CHECK(hashes.count(s.summary("other").at("weights_sha256")) == 0);
}

TEST_CASE("weights do not depend on whether transforms are done together") {
  Folder folder;
  const std::string graph = folder
                                .write("g.json", R"({
    "run": { "epochs": 2, "step_threads": 1 },
    "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                         "channels": [4, 8], "strides": [2] } },
    "nodes": {
      "train": { "type": "synthetic", "num_samples": 6, "spatial_size": [40, 40, 40],
                 "rad_max": 15, "num_seg_classes": 1 },
      "crop":  { "type": "rand_crop_by_pos_neg_label", "in": "train", "spatial_size": 24 },
      "flip":  { "type": "rand_flip", "in": "crop", "prob": 0.5 },
      "zoom":  { "type": "rand_zoom", "in": "flip", "prob": 0.5, "mode": ["trilinear", "nearest"] },
      "turn":  { "type": "rand_affine", "in": "zoom", "prob": 0.5, "rotate_range": 1 },
      "patch": { "type": "rand_spatial_crop", "in": "turn", "roi_size": 16 },
      "batch": { "type": "batch", "in": "patch", "size": 2 },
      "fwd":   { "type": "model", "in": "batch", "net": "net" },
      "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
      "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 } } })")
                                .string();
  const auto weights = [&](const std::string& flags) {
    const std::string out = (folder.path / ("run" + flags)).string();
    const auto r = shell::run("$SLUICE run " + graph + " --quiet --out '" + out + "' " + flags);
    INFO(r.err);
    REQUIRE(r.code == 0);
    return json::parse(folder.read("run" + flags + "/summary.json")).at("weights_sha256");
  };
  const auto fused = weights("--threads 2"), plain = weights("--set run.fuse=false");
  CHECK(fused == plain);
  CHECK(weights("--set run.lazy=true") != plain);
  const auto r = shell::run("$SLUICE check " + graph);
  CHECK(r.out.find("  done together: crop + flip + zoom + turn + patch: 2 resamplings\n") !=
        std::string::npos);
}

TEST_CASE("a run leaves its folder: resolved graph, metrics, summary, profile, checkpoint") {
  Small s;
  if (!s.ready) return;
  const auto r = s.run("--out " + s.out("run"));
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(r.out.empty());
  const json summary = s.summary("run");
  CHECK(summary.at("status") == "done");
  CHECK(summary.at("epochs") == 2);
  CHECK(summary.at("steps") == 14);
  const json& samples = summary.at("samples");
  CHECK(samples.at("emitted") == 2 * (13 + 3));
  CHECK(samples.at("delivered") == 2 * (26 + 3));
  for (const char* name : {"graph.json", "graph.dot", "metrics.jsonl", "profile.json",
                           "checkpoints/last/model.safetensors"}) {
    INFO(name);
    CHECK(std::filesystem::exists(s.folder.path / "run" / name));
  }
  const json profile = json::parse(s.folder.read("run/profile.json"));
  CHECK(profile.at("nodes").at("load").at("items").get<int>() +
            profile.at("nodes").at("load").at("passed").get<int>() ==
        26);
  // The resolved graph alone gives the same run.
  const auto again =
      shell::run("$SLUICE run " + s.out("run/graph.json") + " --quiet --out " + s.out("again"));
  INFO(again.err);
  REQUIRE(again.code == 0);
  CHECK(s.summary("again").at("weights_sha256") == summary.at("weights_sha256"));
}

TEST_CASE("an interrupted and resumed run ends with the weights of the unbroken one") {
  Small s;
  if (!s.ready) return;
  const std::string epochs = "--set vars.epochs=8 ";
  REQUIRE(s.run(epochs + "--out " + s.out("whole")).code == 0);
  for (const char* delay : {"0.9", "1.3", "1.9"}) {
    const std::string out = s.out(std::string("cut") + delay);
    const auto cut = shell::run("$SLUICE run " + s.graph + s.flags + epochs + "--out " + out +
                                " & p=$!; sleep " + delay + "; kill -INT $p; wait $p");
    INFO(cut.err);
    const bool interrupted = cut.code == 130 || cut.code == 0;
    CHECK(interrupted);
    if (cut.code == 130 && !std::filesystem::exists(out + "/checkpoints/last")) continue;
    const auto rest = s.run(epochs + "--resume " + out);
    INFO(rest.err);
    REQUIRE(rest.code == 0);
    const json a = json::parse(s.folder.read("whole/summary.json"));
    const json b = json::parse(s.folder.read(std::string("cut") + delay + "/summary.json"));
    CHECK(a.at("weights_sha256") == b.at("weights_sha256"));
    CHECK(a.at("metrics").at("dice.mean") == b.at("metrics").at("dice.mean"));
    CHECK(a.at("steps") == b.at("steps"));
  }
}

TEST_CASE("a bad sample ends the run with node, sample and file, and quarantine lists it") {
  Small s;
  if (!s.ready) return;
  namespace fs = std::filesystem;
  const fs::path root = s.folder.path / "data";
  fs::create_directories(root / "imagesTr");
  fs::create_directories(root / "labelsTr");
  const fs::path from = fs::path(shell::test_data()) / "Task04_Hippocampus";
  json list = json::parse(std::ifstream(from / "dataset.json"));
  json training = json::array();
  for (int i = 0; i < 6; ++i) {
    const json& e = list["training"][i];
    for (const char* key : {"image", "label"})
      fs::copy_file(from / e[key].get<std::string>(), root / e[key].get<std::string>());
    training.push_back(e);
  }
  const fs::path bad = (root / training[2]["image"].get<std::string>()).lexically_normal();
  fs::resize_file(bad, fs::file_size(bad) / 2);
  s.folder.write("data/dataset.json",
                 json{{"training", training}, {"validation", training}}.dump());
  s.flags = " --quiet --set vars.root=" + root.string() +
            " --set nodes.train.limit=6 --set nodes.val.limit=2 ";

  const auto failed = s.run("--out " + s.out("failed"));
  CHECK(failed.code == 3);
  INFO(failed.err);
  CHECK(failed.err.find("nodes.load") != std::string::npos);
  CHECK(failed.err.find(bad.string()) != std::string::npos);
  CHECK(failed.err.find("small.json:") != std::string::npos);
  CHECK(s.summary("failed").at("status") == "failed");

  const auto kept = s.run("--set nodes.load.on_error=quarantine --out " + s.out("kept"));
  INFO(kept.err);
  CHECK(kept.code == 0);
  CHECK(s.summary("kept").at("samples").at("quarantined") == 2);  // once an epoch
  CHECK(s.folder.read("kept/quarantine.jsonl").find(bad.stem().stem().string()) !=
        std::string::npos);
}

TEST_CASE("checks answer without data, and name what is wrong with a graph") {
  const std::string graphs = SLUICE_SOURCE_DIR "/graphs/";
  for (const auto& e : std::filesystem::recursive_directory_iterator(graphs)) {
    const bool is_whole = e.path().parent_path().filename() != "parts";
    if (e.path().extension() != ".json" || !is_whole) continue;
    const auto r =
        shell::run("$SLUICE check " + e.path().string() + " && $SLUICE dot " + e.path().string());
    INFO(r.err);
    CHECK(r.code == 0);
    CHECK(r.out.find("digraph") != std::string::npos);
  }
  Folder f;
  f.write("bad.json",
          "{\n  \"nodes\": {\n    \"s\": { \"type\": \"decatlon\", \"root\": 1.7 }\n  }\n}\n");
  const auto r = shell::run("$SLUICE check " + (f.path / "bad.json").string());
  CHECK(r.code == 2);
  CHECK(r.err.find("bad.json:3:20") != std::string::npos);
  CHECK(r.err.find("did you mean \"decathlon\"?") != std::string::npos);
}

TEST_CASE("check and dot load neither LibTorch nor the runtime") {
  const auto r = shell::run(
      "LD_DEBUG=files $SLUICE check " SLUICE_SOURCE_DIR
      "/graphs/hippocampus.json 2>&1 | grep -c 'libtorch\\|libsluice_runtime\\|libcuda' || true");
  CHECK(r.out == "0\n");
}

TEST_CASE("a folder that is taken from a run is missed at its end") {
  const TinyTraining t;
  const auto r = shell::run(t.in_folder +
                            "$SLUICE run g.json --out a --set run.epochs=100000 & p=$!\n"
                            "until [ -s a/metrics.jsonl ]; do sleep 0.05; done\n"
                            "mv a b; kill -INT $p; wait $p");
  INFO(r.err);
  CHECK(r.code == 4);
  CHECK(r.err.find("a/run.json: was taken away while the run went on") != std::string::npos);
  CHECK(!fs::exists(t.folder.path / "a"));
  CHECK(r.out.find("--resume") == std::string::npos);
}

TEST_CASE("a signal announces a checkpoint where the run writes one, and nowhere else") {
  const TinyTraining t;
  t.folder.write("made.json", R"({ "nodes": { "made": {
    "type": "noise", "num_samples": 100000000, "shape": [1, 8, 8] } } })");
  const auto said = [&](const std::string& command) {
    const auto r = shell::run(t.in_folder + "rm -rf a; $SLUICE " + command +
                              " --out a & p=$!\n"
                              "until [ -s a/graph.json ]; do sleep 0.05; done\n"
                              "sleep 0.5; kill -INT $p; wait $p");
    CHECK(r.code == 130);
    return r.err;
  };
  const std::string checkpoint = "\nstopping: finishing the step, writing a checkpoint (again: at ";
  CHECK(said("run g.json --set run.epochs=100000").find(checkpoint) != std::string::npos);
  CHECK(said("profile g.json --seconds 0 --set run.epochs=100000").find(checkpoint) !=
        std::string::npos);
  CHECK(said("run made.json").find("\nstopping: finishing what has begun (again: at once)\n") !=
        std::string::npos);
}

TEST_CASE("the summary's small numbers are not zeros") {
  const TinyTraining t;
  const auto r = shell::run(t.in_folder + "$SLUICE run g.json --no-out --set nodes.step.lr=2e-6");
  CHECK(r.out.find("  step.lr                      2e-06\n") != std::string::npos);
}

TEST_CASE("a training without a step says so, and keeps it in the summary") {
  const TinyTraining t;
  const auto r = t.run("--set nodes.batch.size=7 --set +nodes.batch.drop_last=true --out a");
  CHECK(r.code == 0);
  const std::string why = "no step was taken: no batch reached nodes.step";
  CHECK(r.err.find("warning: " + why + "\n") != std::string::npos);
  CHECK(t.json_of("a/summary.json").at("warnings") == nlohmann::json{why});
  CHECK_FALSE(t.run("--out b").err.find("no step") != std::string::npos);
}

TEST_CASE("the best value of a distance is the least, whatever its node is called") {
  json g = json::parse(tiny_training);
  g["nodes"]["far"] = {
      {"type", "surface_distance_metric"}, {"in", "infer"}, {"include_background", true}};
  g["run"]["epochs"] = 4;
  shell::Folder folder;
  folder.write("g.json", g.dump());
  const auto run =
      shell::run("cd " + folder.path.string() + "\n$SLUICE run g.json --quiet --out a");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  std::istringstream lines(folder.read("a/metrics.jsonl"));
  double least = 1e9, most = 0;
  for (std::string line; std::getline(lines, line);)
    if (const json j = json::parse(line); j.value("metric", "") == "far.mean")
      least = std::min(least, j["value"].get<double>()),
      most = std::max(most, j["value"].get<double>());
  CHECK(least < most);
  CHECK(folder.json_of("a/summary.json")["metrics"]["far.mean"]["best"] == least);
}
