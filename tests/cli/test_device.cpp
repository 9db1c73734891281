// Whole runs on a simulated device: tensors that were moved hold NaN until the copy is done, some
// time later and on another thread.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/cli/nii.h"
#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

// Copies before a cache and a batch, a region on the device, predictions that come back.
const char* const graph = R"({
  "run": { "epochs": 2, "step_threads": 1 },
  "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                       "channels": [4, 8], "strides": [2], "num_res_units": 1 } },
  "nodes": {
    "train": { "type": "synthetic", "num_samples": 9, "spatial_size": [24, 24, 24], "rad_max": 8,
               "num_objs": 3, "num_seg_classes": 1 },
    "norm":  { "type": "normalize_intensity", "in": "train" },
    "up":    { "type": "to_device", "in": "norm", "ahead": 3 },
    "kept":  { "type": "cache", "in": "up" },
    "batch": { "type": "batch", "in": "kept", "size": 2 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 },
    "val":   { "type": "synthetic", "num_samples": 3, "first": 20, "spatial_size": [24, 24, 24],
               "rad_max": 8, "num_objs": 3, "num_seg_classes": 1, "after": "step" },
    "one":   { "type": "batch", "in": "val" },
    "vup":   { "type": "to_device", "in": "one" },
    "infer": { "type": "model", "in": "vup", "net": "net" },
    "down":  { "type": "to_device", "in": "infer", "device": "cpu" },
    "dice":  { "type": "dice_metric", "in": "down" },
    "there": { "type": "dice_metric", "in": "infer", "lane": "step" }
  }
})";

}  // namespace

TEST_CASE("a run whose copies come late gives the weights and metrics of the run without them") {
  const Folder folder;
  const std::string file = folder.write("g.json", graph).string();
  const auto run = [&](const std::string& device, const std::string& more) {
    const auto out = (folder.path / (device + more)).string();
    const auto r = shell::run("SLUICE_DEVICE=" + device + " $SLUICE run " + file +
                              " --quiet --threads 2 --out '" + out + "' " + more);
    INFO(r.err);
    REQUIRE(r.code == 0);
    return json::parse(folder.read(device + more + "/summary.json"));
  };
  const json host = run("none", "");
  CHECK(host.at("device") == "cpu");
  CHECK(host.at("steps") == 10);
  for (const char* more : {"", "--set nodes.up.ahead=1", "--set run.checkpoint.every_epochs=1"}) {
    const json device = run("simulated", more);
    CHECK(device.at("device") == "simulated");
    CHECK(device.at("weights_sha256") == host.at("weights_sha256"));
    CHECK(device.at("metrics") == host.at("metrics"));
    CHECK(device.at("samples") == host.at("samples"));
    CHECK(folder.read(std::string("simulated") + more + "/metrics.jsonl") ==
          folder.read("none/metrics.jsonl"));
  }
}

TEST_CASE("SLUICE_DEVICE is one of its words, and no other is taken for a GPU") {
  const Folder folder;
  const std::string file = folder.write("g.json", graph).string();
  const auto run = [&](const std::string& device) {
    return shell::run("SLUICE_DEVICE=" + device + " $SLUICE run " + file +
                      " --quiet --set run.epochs=1 --out " + (folder.path / device).string());
  };
  for (const char* wrong : {"cuda:1", "CPU", "none:2", "gpu:0", "gpu:two", "simulated:"}) {
    const auto r = run(wrong);
    CAPTURE(wrong);
    CHECK(r.code == 2);
    CHECK(r.err.find("SLUICE_DEVICE is \"" + std::string(wrong) +
                     "\", not none, cpu, gpu, gpu:N, simulated or simulated:N") !=
          std::string::npos);
  }
  const auto r = run("cpu");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(json::parse(folder.read("cpu/summary.json")).at("device") == "cpu");
}

TEST_CASE("a label that is no class ends a run on a device as it does on the host") {
  const Folder folder;
  const std::string file = folder.write("g.json", graph).string();
  const auto said = [&](const std::string& device) {
    const auto r = shell::run("SLUICE_DEVICE=" + device + " $SLUICE run " + file +
                              " --quiet --set nodes.train.num_seg_classes=2");
    INFO(r.err);
    CHECK(r.code == 3);
    const auto at = r.err.find("label value ");
    REQUIRE(at != std::string::npos);
    return r.err.substr(at, r.err.find('\n', at) - at);
  };
  const std::string host = said("none");
  CHECK(host.find("; the network has classes 0 to 1") != std::string::npos);
  CHECK(said("simulated") == host);
}

TEST_CASE(
    "a training step that is repeated from a recording gives the weights of one that is not") {
  const Folder folder;
  json g = json::parse(graph);
  g["run"]["epochs"] = 3;
  g["run"]["cuda_graphs"] = true;
  int number = 0;
  const auto both = [&](const json& of, std::uint64_t recorded, std::uint64_t repeated) {
    const std::string name = "g" + std::to_string(number++);
    const std::string file = folder.write(name + ".json", of.dump()).string();
    json summary[2];
    for (const bool device : {false, true}) {
      const std::string out = name + (device ? "d" : "h");
      const auto r = shell::run(std::string("SLUICE_DEVICE=") + (device ? "simulated" : "none") +
                                " $SLUICE run " + file + " --quiet --threads 2 --out " +
                                (folder.path / out).string());
      INFO(r.err);
      REQUIRE(r.code == 0);
      summary[device] = json::parse(folder.read(out + "/summary.json"));
    }
    CHECK(!summary[0].contains("cuda_graphs"));
    CHECK(summary[1].at("weights_sha256") == summary[0].at("weights_sha256"));
    CHECK(folder.read(name + "d/metrics.jsonl") == folder.read(name + "h/metrics.jsonl"));
    const json& steps = summary[1].at("cuda_graphs").at("step");
    CHECK(steps.at("recorded") == recorded);
    CHECK(steps.at("repeated") == repeated);
  };
  // Batches of 2, 2, 2, 2, 1: the fourth is the first that is recorded; the small ones never are.
  both(g, 1, 9);
  json other = g;
  other["nodes"]["step"]["lr_schedule"] = "cosine";
  both(other, 3, 9);  // a new learning rate, a new recording
  other = g;
  other["nodes"]["loss"]["weight"] = {1, 2};
  both(other, 0, 0);
  other = g;
  other["models"]["net"]["dropout"] = 0.1;
  both(other, 0, 0);
  other = g;
  other["nodes"]["step"]["grad_accumulation"] = 2;
  both(other, 0, 0);
  other = g;  // batch norm's running statistics are the recording's too; a sink beside the loss
  other["models"]["net"]["norm"] = "BATCH";
  other["nodes"]["mean"] = {{"type", "running_mean"}, {"in", "loss"}, {"key", "loss"}};
  both(other, 1, 9);
}

TEST_CASE("a region that is not one piece is not recorded, and the summary says why") {
  const Folder folder;
  json g = json::parse(graph);
  g["run"]["cuda_graphs"] = true;
  g["nodes"]["fwd"]["lane"] = "compute";
  const std::string file = folder.write("g.json", g.dump()).string();
  const auto r = shell::run("SLUICE_DEVICE=simulated $SLUICE run " + file + " --quiet --out " +
                            (folder.path / "out").string());
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json steps = json::parse(folder.read("out/summary.json")).at("cuda_graphs").at("step");
  CHECK(steps.at("why_not") == "\"fwd\" is no 1:1 node of the step lane");
}

TEST_CASE("a run that was cut on a device goes on from its checkpoint to the same weights") {
  const Folder folder;
  const std::string file = folder.write("g.json", graph).string();
  const std::string whole = (folder.path / "whole").string(), cut = (folder.path / "cut").string();
  const std::string go = "SLUICE_DEVICE=simulated $SLUICE run " + file + " --quiet --out ";
  REQUIRE(shell::run(go + whole).code == 0);
  REQUIRE(shell::run(go + cut + " --set run.epochs=1").code == 0);
  const auto r = shell::run(go + cut + " --resume " + cut);
  INFO(r.err);
  CHECK(r.code == 0);
  CHECK(json::parse(folder.read("cut/summary.json")).at("weights_sha256") ==
        json::parse(folder.read("whole/summary.json")).at("weights_sha256"));
}

TEST_CASE(
    "what finds no room in a device's cache comes from the host's, and nothing is made twice") {
  const Folder folder;
  json g = json::parse(graph);
  // A label of float32, which a byte a voxel holds.
  g["nodes"]["wide"] = {{"type", "scale_intensity"}, {"in", "norm"}, {"keys", "label"}};
  g["nodes"]["held"] = {{"type", "cache"}, {"in", "wide"}};
  g["nodes"]["up"]["in"] = "held";
  g["nodes"]["kept"]["store"] = "device";
  g["nodes"]["flip"] = {{"type", "rand_flip"}, {"in", "kept"}, {"prob", 0.5}};
  g["nodes"]["batch"]["in"] = "flip";
  g["run"]["epochs"] = 3;
  const std::string file = folder.write("g.json", g.dump()).string();
  const auto run = [&](const std::string& device, const std::string& name,
                       const std::string& more) {
    const auto r = shell::run("SLUICE_DEVICE=" + device + " $SLUICE run " + file +
                              " --quiet --threads 2 --out " + (folder.path / name).string() + more);
    INFO(r.err);
    REQUIRE(r.code == 0);
    return json::parse(folder.read(name + "/summary.json")).at("weights_sha256");
  };
  const auto fired = [&](const std::string& name, const char* node) {
    return json::parse(folder.read(name + "/profile.json")).at("nodes").at(node).at("items");
  };
  const json plain = run("none", "plain", " --set run.fuse=false");
  CHECK(run("none", "host", "") == plain);
  CHECK(run("simulated", "roomy", "") == plain);
  // One that is asked for again while it is still being computed is computed again.
  CHECK(fired("roomy", "norm") < 18);
  CHECK(fired("roomy", "up") < 18);
  // 24^3 voxels: 69,120 bytes an item, three of them; without narrow labels 110,592, one.
  CHECK(run("simulated", "tight", " --set nodes.kept.budget=210000") == plain);
  CHECK(fired("tight", "norm") < 18);
  CHECK(fired("tight", "up") >= 9 + 6 + 6);
  CHECK(run("simulated", "wide", " --set nodes.kept.budget=210000 --set run.fuse=false") == plain);
  CHECK(fired("wide", "up") >= 9 + 8 + 8);
}

TEST_CASE("a device that the graph insists on and that is not there is a GPU error") {
  const Folder folder;
  const std::string file = folder.write("g.json", graph).string();
  const auto r = shell::run("SLUICE_DEVICE=none $SLUICE run " + file +
                            " --quiet --no-out --set nodes.up.device=cuda");
  CHECK(r.code == 6);
  CHECK(r.err.find("no CUDA device here") != std::string::npos);
}

// The elements of a file's tensors, from its header.
static std::int64_t elements(const std::string& safetensors) {
  std::uint64_t length = 0;
  std::memcpy(&length, safetensors.data(), 8);
  std::int64_t all = 0;
  const json header = json::parse(safetensors.substr(8, length));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    std::int64_t n = 1;
    for (const auto& size : tensor.at("shape")) n *= size.get<std::int64_t>();
    all += n;
  }
  return all;
}

TEST_CASE("MONAI's multi_gpu_test is one file for the CPU, for a device and for several") {
  const Folder folder;
  const auto run = [&](const std::string& device) {
    const auto r =
        shell::run("SLUICE_DEVICE=" + device +
                   " $SLUICE run " SLUICE_SOURCE_DIR "/graphs/multi_gpu_test.json --quiet --out " +
                   (folder.path / device).string());
    INFO(r.err);
    REQUIRE(r.code == 0);
    CHECK(elements(folder.read(device + "/checkpoints/last/model.safetensors")) == 1624844);
    return json::parse(folder.read(device + "/summary.json"));
  };
  const json host = run("none");
  CHECK(host.at("steps") == 4);
  CHECK(host.at("devices") == 1);
  CHECK(run("simulated").at("weights_sha256") == host.at("weights_sha256"));
  const json shared = run("simulated:4");  // parts of 3, 3, 3 and 1
  CHECK(shared.at("steps") == 4);
  CHECK(shared.at("devices") == 4);
}

TEST_CASE("MONAI's transform_speed makes its patches on the CPU and on a device, of made volumes") {
  const Folder folder;
  const auto run = [&](const std::string& device) {
    const auto r =
        shell::run("SLUICE_DEVICE=" + device +
                   " $SLUICE run " SLUICE_SOURCE_DIR "/graphs/transform_speed.json --quiet --out " +
                   (folder.path / device).string() +
                   " --set 'nodes.volumes.spatial_size=[40,40,40]' --set nodes.volumes.rad_max=12"
                   " --set 'vars.patch=[16,16,16]' --set nodes.affine.translate_range=12");
    INFO(r.err);
    REQUIRE(r.code == 0);
    return json::parse(folder.read(device + "/summary.json"));
  };
  const json host = run("none"), device = run("simulated");
  CHECK(host.at("samples").at("delivered") == 2 * 2 * 5);  // epochs, ways, volumes
  CHECK(device.at("samples") == host.at("samples"));
  for (const char* way : {"cpu", "gpu"}) {
    const std::string slice = std::string("/previews/epoch_00002/") + way +
                              "_synthetic_0_synthetic_1_synthetic_2_0_0.png";
    CHECK(folder.read("none" + slice) != "");
    CHECK(folder.read("simulated" + slice) == folder.read("none" + slice));
  }
}

TEST_CASE("transform_speed takes a folder's files where its second file says so") {
  const Folder folder;
  for (int i = 0; i < 3; ++i)
    nii::write(folder.path / "data" / (std::to_string(i) + ".nii"), {20, 22, 24}, {1, 1, 1},
               [i](int x, int, int) { return float(x * i); });
  const std::string graphs = SLUICE_SOURCE_DIR "/graphs/";
  const auto r = shell::run("cd " + folder.path.string() + " && $SLUICE run " + graphs +
                            "transform_speed.json " + graphs +
                            "parts/transform_speed_files.json --quiet --out r --set vars.root=data"
                            " --set nodes.files.pattern=*.nii --set 'vars.patch=[16,16,16]'");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(json::parse(folder.read("r/summary.json")).at("samples").at("delivered") == 2 * 2 * 3);
}
