// What stands behind to_device: where its nodes work, what stays on the host, how much flies, and
// the project's own graphs on a device that is simulated.
#include <doctest/doctest.h>

#include "engine/graph/merge.h"
#include "engine/plan/device_need.h"
#include "tests/cli/bmp.h"
#include "tests/cli/types.h"

using namespace sluice;
using nlohmann::json;
using shell::Folder;
namespace fs = std::filesystem;

namespace {

const std::string graphs = SLUICE_SOURCE_DIR "/graphs/";

struct Planned {
  std::optional<Graph> graph;
  std::optional<Plan> plan;
  Diagnostics said;

  Planned(const std::string& text, bool device) {
    make(parse_document("g.json", text, said), device);
  }
  explicit Planned(const fs::path& file) { make(read_graph_files({file.string()}, said), true); }
  void make(const DocumentPtr& document, bool device) {
    if (document) graph = load_graph(document, types::real(), {}, said);
    if (graph) plan = make_plan(*graph, {.threads = 8, .device = device}, said);
  }
  const PlanNode& node(const std::string& path) const {
    return plan->nodes.at(static_cast<std::size_t>(graph->find(path)));
  }
};

// A cached synthetic data set, moved, cropped and stacked; `more` joins the crop's parameters.
std::string crops(const std::string& more, const std::string& run = "{}") {
  return R"({ "run": )" + run + R"(, "nodes": {
    "made":   { "type": "synthetic", "num_samples": 4, "spatial_size": [32, 32, 32],
                "rad_max": 12 },
    "voxels": { "type": "fg_bg_to_indices", "in": "made" },
    "kept":   { "type": "cache", "in": "voxels" },
    "gpu":    { "type": "to_device", "in": "kept" },
    "there":  { "type": "cache", "in": "gpu", "store": "device" },
    "crop":   { "type": "rand_crop_by_pos_neg_label", "in": "there", "spatial_size": 16)" +
         more + R"( },
    "noise":  { "type": "rand_gaussian_noise", "in": "crop", "prob": 0.5 },
    "batch":  { "type": "batch", "in": "noise", "size": 8 },
    "down":   { "type": "to_device", "in": "batch", "device": "cpu" },
    "seen":   { "type": "preview", "in": "down" } } })";
}
const char* const keys =
    R"(, "fg_indices_key": "label_fg_indices", "bg_indices_key": "label_bg_indices")";

json summary(const Folder& folder, const std::string& name, const std::string& words) {
  const auto r =
      shell::run("cd " + folder.path.string() + " && " + words + " --quiet --out " + name);
  INFO(r.err);
  REQUIRE(r.code == 0);
  return json::parse(folder.read(name + "/summary.json"));
}

}  // namespace

TEST_CASE(
    "the voxels that crops draw from stay on the host, and where none are named nothing does") {
  const Planned with(crops(keys), true), without(crops(""), true);
  REQUIRE(with.plan);
  CHECK(with.node("gpu").stays == std::vector<std::string>{"label_fg_indices", "label_bg_indices"});
  CHECK(without.node("gpu").stays.empty());
  CHECK(with.node("crop").lane == LaneKind::copy);
  CHECK(with.node("noise").lane == LaneKind::copy);
}

TEST_CASE("to_device lets as few samples fly as it says, and none wait where there is no device") {
  const Planned device(crops(""), true), host(crops(""), false);
  // On a device 2; batches of 8 are held back after `there`, which is a segment of its own.
  CHECK(device.node("gpu").credits == 2);
  CHECK(host.node("gpu").credits == 16);  // as any other segment with 8 threads
  // What the cache there does not keep is on the device too.
  CHECK(device.node("there").credits == 7 + 2);
  CHECK(host.node("there").credits == 7 + 16);
  std::string direct = crops("");
  direct.replace(direct.find(R"("in": "there")"), 13, R"("in": "gpu")");
  const Planned batched(direct, true);
  REQUIRE(batched.plan);
  CHECK(batched.node("gpu").need == 8);
  CHECK(batched.node("gpu").credits == 7 + 2);
}

TEST_CASE("what flies on a device is counted with its caches, and held against the budget") {
  const Planned free(crops(keys), true);
  const DeviceNeed need = device_need(*free.plan);
  // Image float32 and label uint8 of 32^3 voxels; 8 patches of 16^3.
  REQUIRE(need.in_flight.size() == 3);
  CHECK(need.in_flight[0].gate == "gpu");
  CHECK(need.in_flight[0].packets * need.in_flight[0].each == 2 * 5 * 32 * 32 * 32);
  CHECK(need.in_flight[1].gate == "there");
  CHECK(need.in_flight[1].packets * need.in_flight[1].each == 9 * 5 * 32 * 32 * 32);
  CHECK(need.in_flight[2].each == 8 * 5 * 16 * 16 * 16);
  CHECK(need.unbounded == 1);
  CHECK(need.share(need.flying() + 1000) == 1000);
  CHECK(need.share(need.flying() - 1) == 0);
  CHECK(Planned(crops(keys, R"({ "device_budget": 2200000 })"), true).plan);
  const Planned tight(crops(keys, R"({ "device_budget": 2100000 })"), true);
  REQUIRE(!tight.plan);
  CHECK(tight.said.all().front().code == "SL0431");
}

TEST_CASE("a device's cache takes what the budget leaves, and what finds no room changes nothing") {
  const Folder folder;
  folder.write("g.json", crops(keys, R"({ "epochs": 3 })"));
  const auto entries = [&](const std::string& name) {
    const json profile = json::parse(folder.read(name + "/profile.json"));
    return profile.at("nodes").at("there").at("cache").at("entries").get<int>();
  };
  const std::string go = "SLUICE_DEVICE=simulated $SLUICE run g.json";
  const json roomy = summary(folder, "roomy", go);
  CHECK(entries("roomy") == 4);
  // 2,129,920 bytes fly; of an item the image stays float32 and the masks are counted too.
  const json tight = summary(folder, "tight", go + " --set run.device_budget=2494560");
  CHECK(entries("tight") == 2);
  const json plan = json::parse(folder.read("tight/profile.json")).at("device_plan");
  CHECK(plan.at("in_flight_mb").get<double>() == doctest::Approx(2.12992));
  CHECK(plan.at("caches_mb").get<double>() == doctest::Approx(2.49456 - 2.12992));
  const auto said = shell::run("cd " + folder.path.string() +
                               " && SLUICE_DEVICE=simulated $SLUICE profile g.json --seconds 1 "
                               "--set run.device_budget=2494560");
  CHECK(said.out.find("2 MB of samples in flight and at most 0 MB in caches") != std::string::npos);
  CHECK(tight.at("samples") == roomy.at("samples"));
  for (const auto& e : fs::recursive_directory_iterator(folder.path / "roomy/previews"))
    if (e.path().extension() == ".png")
      CHECK(folder.read(fs::relative(e.path(), folder.path).string()) ==
            folder.read("tight/" + fs::relative(e.path(), folder.path / "roomy").string()));
}

TEST_CASE("each of the project's graphs can be planned for a device, and trains on it") {
  for (const auto& e : fs::recursive_directory_iterator(graphs)) {
    const std::string name = fs::relative(e.path(), graphs).string();
    if (e.path().extension() != ".json" || name.starts_with("parts/") ||
        name == "graph.schema.json")
      continue;
    CAPTURE(name);
    const Planned planned(e.path());
    CHECK_MESSAGE(planned.plan, planned.said.to_json().dump());
    if (!planned.plan) continue;
    for (const PlanNode& n : planned.plan->nodes)
      if (n.gate && n.takes_turns && n.training)
        CHECK(planned.plan->nodes[static_cast<std::size_t>(n.inputs.front().from)].flow.moved_by >=
              0);
  }
}

TEST_CASE("MONAI's fast recipe gives the same weights on a device, with and without its masks") {
  const Folder folder;
  const std::string small =
      " $SLUICE run " + graphs +
      "fast_integration.json --set 'vars.size=[32,32,32]' --set 'vars.patch=[16,16,16]' --set "
      "nodes.train.num_samples=6 --set +nodes.train.rad_max=12 --set nodes.val.num_samples=2 --set "
      "+nodes.val.rad_max=12 --set nodes.batch.size=8 --set 'models.net.channels=[4,8]' --set "
      "'models.net.strides=[2]' --set 'nodes.infer.roi_size=[16,16,16]' --set run.epochs=2";
  const json host = summary(folder, "host", "SLUICE_DEVICE=none" + small);
  CHECK(host.at("steps") == 2 * 3);
  const std::string searched =
      " --set nodes.cached.in=fore --set ~nodes.voxels --set ~nodes.crop.fg_indices_key --set "
      "~nodes.crop.bg_indices_key --set +nodes.crop.image_key=image";
  for (const std::string more :
       {"", " --set run.fuse=false", searched.c_str(), " --set run.device_budget=3000000"}) {
    CAPTURE(more);
    const json device = summary(folder, "device", "SLUICE_DEVICE=simulated" + small + more);
    CHECK(device.at("weights_sha256") == host.at("weights_sha256"));
    CHECK(device.at("metrics") == host.at("metrics"));
    fs::remove_all(folder.path / "device");
  }
}

TEST_CASE("pictures that are augmented behind to_device give the weights of the host") {
  const Folder folder;
  for (int i = 0; i < 10; ++i)
    for (int c = 0; c < 2; ++c)
      folder.write(
          std::string("data/") + static_cast<char>('a' + c) + "/" + std::to_string(i) + ".bmp",
          bmp(40, 36, 20 + 7 * i, c));
  for (const std::string name : {"strong", "progressive"}) {
    CAPTURE(name);
    const std::string go = " $SLUICE run " + graphs + "augment2d_" + name + ".json " + graphs +
                           "parts/augment2d_debug.json --set vars.root=data --set run.epochs=2 "
                           "--set vars.val_frac=0.2" +
                           (name == "strong" ? "" : " --set 'nodes.augment.from=[0,1,2]'");
    CHECK(summary(folder, name + "d", "SLUICE_DEVICE=simulated" + go).at("weights_sha256") ==
          summary(folder, name + "h", "SLUICE_DEVICE=none" + go).at("weights_sha256"));
  }
}

TEST_CASE("a graph that leaves a GPU idle is told so, once") {
  const Folder folder;
  const std::string small = "cd " + folder.path.string() +
                            " && SLUICE_DEVICE=simulated $SLUICE run " + graphs +
                            "multi_gpu_test.json --quiet --out ";
  CHECK(shell::run(small + "a").err.find("note:") == std::string::npos);
  const auto idle = shell::run(small + "b --set nodes.fwd.in=batch --set ~nodes.move");
  INFO(idle.err);
  CHECK(idle.code == 0);
  CHECK(idle.err.find("note: the network of \"fwd\" trains on the CPU, though simulated is here: "
                      "put a to_device in front of it\n") != std::string::npos);
}

TEST_CASE("what is done on the host only is refused behind to_device, by the parameter") {
  const auto behind = [](const std::string& node) {
    return Planned(R"({ "nodes": {
      "made": { "type": "synthetic", "num_samples": 2, "spatial_size": [16, 16] },
      "gpu":  { "type": "to_device", "in": "made" },
      "it":   { )" + node +
                       R"(, "in": "gpu" },
      "all":  { "type": "batch", "in": "it", "size": 2 } } })",
                   true);
  };
  for (const char* node :
       {R"("type": "rand_zoom")", R"("type": "resize", "spatial_size": 8, "mode": "bicubic")",
        R"("type": "spatial_pad", "spatial_size": 20, "mode": "wrap")",
        R"("type": "zoom", "zoom": 2, "mode": "bilinear", "padding_mode": "reflect")",
        R"("type": "cache", "store": "disk")", R"("type": "cache", "store": "auto")",
        R"("type": "one_of", "transforms": [{ "type": "rand_zoom" }])",
        R"("type": "one_of", "transforms": [[{ "type": "some_of",
           "transforms": [{ "type": "rand_flip" }, { "type": "rand_zoom" }] }]])",
        R"("type": "rand_simulate_low_resolution", "upsample_mode": "nearest")"}) {
    CAPTURE(node);
    const Planned refused = behind(node);
    CHECK(!refused.plan);
    REQUIRE(!refused.said.all().empty());
    CHECK(refused.said.all().front().code == "SL0608");
  }
  for (const char* node :
       {R"("type": "rand_zoom", "mode": ["bilinear", "nearest"])",
        R"("type": "spatial_pad", "spatial_size": 20, "mode": "edge")",
        R"("type": "cache", "store": "memory")", R"("type": "rand_simulate_low_resolution")",
        R"("type": "one_of", "transforms": [{ "type": "rand_zoom", "mode": "nearest" }])",
        R"("type": "one_of", "transforms": [[{ "type": "some_of",
           "transforms": [{ "type": "rand_flip" }, { "type": "one_of",
                            "transforms": [{ "type": "rand_rotate90" }] }] }]])"}) {
    CAPTURE(node);
    CHECK(behind(node).plan);
  }
}

TEST_CASE("a GPU that nothing can be done on is said, and the CPU does everything") {
  const Folder folder;
  folder.write("g.json", R"({ "run": { "epochs": 1 }, "nodes": {
    "made": { "type": "synthetic", "num_samples": 2, "spatial_size": [16, 16, 16], "rad_max": 4,
              "rad_min": 2 },
    "gpu":  { "type": "to_device", "in": "made" },
    "flip": { "type": "rand_flip", "in": "gpu", "prob": 1.0, "spatial_axis": 0 },
    "seen": { "type": "preview", "in": "flip" } } })");
  for (const auto& [how, why] : {std::pair{"old", "older than compute capability 8.0"},
                                 {"young", "LibTorch finds none that it can use"}}) {
    CAPTURE(how);
    const auto r = shell::run("cd " + folder.path.string() +
                              " && export LD_LIBRARY_PATH=" SLUICE_BINARY_DIR "/fake FAKE_CUDA=" +
                              std::string(how) + "; $SLUICE run g.json --quiet --out " + how);
    CHECK(r.code == 0);
    CHECK(r.err.find("the CPU does everything: ") != std::string::npos);
    CHECK(r.err.find(why) != std::string::npos);
    CHECK(json::parse(folder.read(std::string(how) + "/summary.json")).at("device") == "cpu");
  }
}
