// What --set changed in training of the recipe's graphs, in the graphs that predict with their
// runs; and checkpoints in place of runs.
#include <doctest/doctest.h>

#include "tests/cli/nnunet_workplace.h"
#include "tests/cli/packaged.h"

using nlohmann::json;
using namespace nnunet_workplace;

namespace {

const std::string fullres_model = "out/nnUNetTrainer__nnUNetPlans__3d_fullres";
const std::string prediction = "new prediction data/imagesTr --weights ";

json graph_at(const Workplace& w, const std::string& file) {
  return json::parse(w.folder.read(file), nullptr, true, /*ignore_comments=*/true);
}

// Two folds whose network, preparation and windows are otherwise than the plan.
struct ChangedRuns : Workplace {
  json features;

  ChangedRuns() {
    make();
    must("new segmentation data --recipe nnunet --folds 2 -o out");
    features = graph_at(*this, "out/3d_fullres.json")["models"]["net"]["features_per_stage"];
    for (json& n : features) n = n.get<int>() / 4;
    must(
        "run out/3d_fullres.json --out out/3d_fullres --each vars.fold=0,1 --quiet "
        "--set vars.epochs=1 --set vars.batch=2 --set nodes.draw.num_samples=4 "
        "--set nodes.o_draw.num_samples=2 --set nodes.v_infer.mirror_axes=[0] "
        "--set +nodes.v_pre/grid.separate_z=never --set parts.prepare.nodes.grid.spacing=[2,2,2] "
        "--set 'parts.prepare.nodes.norm.schemes=[\"rescale_to_0_1\",\"none\"]' "
        "--set models.net.features_per_stage=" +
        features.dump());
  }
  void must(const std::string& command) const {
    const auto r = run(command);
    INFO(command << ": " << r.err);
    REQUIRE(r.code == 0);
  }
  void refused(const std::string& weights, const std::string& why) const {
    const auto r = run(prediction + weights + " -o no.json");
    INFO(r.err);
    CHECK(r.code == 3);
    CHECK(contains(r.err, why));
    CHECK_FALSE(std::filesystem::exists(at("no.json")));
  }
  void has_settings(const std::string& file) const {
    const json graph = graph_at(*this, file), &nodes = graph["nodes"];
    CAPTURE(file);
    CHECK(nodes["norm"]["schemes"] == json{"rescale_to_0_1", "none"});
    CHECK(nodes["grid"]["spacing"] == json{2, 2, 2});
    CHECK(nodes["infer"]["mirror_axes"] == json{0});
    CHECK(graph["models"]["net"]["features_per_stage"] == features);
    CHECK_FALSE(graph["models"]["net"].contains("deep_supervision"));
  }
  // The fold's whole cases are segmented as its own validation did.
  void segments_as_fold_0(const std::string& out) const {
    int cases = 0;
    for (int i = 0; i < 6; ++i) {
      const std::string name = "case_" + std::to_string(i) + ".nii",
                        validated = "out/3d_fullres/fold=0/validation/" + name;
      if (!std::filesystem::exists(at(validated))) continue;
      ++cases;
      CHECK(folder.read(validated) == folder.read(out + "/segmentations/" + name));
    }
    CHECK(cases == 3);
  }
  void change(const std::string& file, const std::string& path, const json& value) const {
    json graph = json::parse(folder.read(file));
    graph[json::json_pointer(path)] = value;
    folder.write(file, graph.dump());
  }
};

}  // namespace

TEST_CASE("what --set changed in training is so in the graphs that predict with the runs") {
  const ChangedRuns w;
  const std::string fold = "out/3d_fullres/fold=0";
  w.must(prediction + fold + " -o one.json");
  w.has_settings("one.json");
  CHECK(contains(w.folder.read("one.json"),
                 "// Otherwise than the plan, as it was trained: separate_z, spacing."));
  w.must("run one.json --quiet --out one");
  w.segments_as_fold_0("one");

  w.must(prediction + fold + "/checkpoints/best -o best.json");
  w.has_settings("best.json");
  CHECK(contains(w.folder.read("best.json"), "3d_fullres/fold=0/checkpoints/best\"]"));
  w.must("run best.json --quiet --out best");  // of one epoch the best is the last
  w.segments_as_fold_0("best");

  w.must(prediction + fullres_model + " -o all.json");
  w.has_settings("all.json");
  w.must("new best_configuration out -o chosen");
  w.has_settings("chosen/predict.json");
  w.must("run chosen/predict.json --quiet --out chosen/out --set vars.images=data/imagesTr");
}

TEST_CASE("runs whose settings a prediction cannot have are refused, and the setting is named") {
  const ChangedRuns w;
  const std::string fold = "out/3d_fullres/fold=1", graph = fold + "/graph.json",
                    whole = w.folder.read(graph);
  const auto with = [&](const std::string& path, const json& value) {
    w.folder.write(graph, whole);
    w.change(graph, path, value);
  };
  with("/nodes/v_infer/mirror_axes", {1});
  w.refused(fullres_model, "fold=1/graph.json: nodes.v_infer.mirror_axes is [1], in ");
  const auto best = w.run("new best_configuration out -o no");
  CHECK(best.code == 3);
  CHECK(contains(best.err, "nodes.v_infer.mirror_axes is [1]"));
  with("/nodes/v_pre~1norm/schemes", {"zscore", "ct"});
  w.refused(fullres_model, "nodes.v_pre/norm.schemes is as planned, in ");
  with("/models/net/conv_bias", false);
  w.refused(fullres_model, "models.net.conv_bias is false");
  with("/nodes/v_gpu/in", "more");
  w.refused(fold, "nodes.v_gpu.in is \"more\" and not \"v_pre/grid\"");
  with("/nodes/v_keep/in", "more");
  w.refused(fold, "nodes.v_keep.in is \"more\"");
  with("/nodes/v_save/in", "more");
  w.refused(fold, "nodes.v_save.in is \"more\" and not \"v_label\"");
  with("/nodes/v_pre~1norm/type", "scale_intensity");
  w.refused(fold, "nodes.v_pre/norm.type is \"scale_intensity\"");
  with("/nodes/v_infer", nullptr);
  w.refused(fold, "nodes.v_infer is not there");
  std::filesystem::remove(w.at(graph));
  w.refused(fullres_model, "fold=1/graph.json: no such file: the run was not begun");
}

TEST_CASE("a prediction takes the weights of a checkpoint that is named") {
  const Packaged p;
  const auto made =
      p.sh("$SLUICE new prediction data/images --weights run/checkpoints/last/ -o a.json");
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(contains(p.folder.read("a.json"), "\"weights\": \"run/checkpoints/last/\""));
  CHECK(p.sh("$SLUICE check a.json").code == 0);
  p.refused(
      "$SLUICE new prediction data/images --weights run/checkpoints -o b.json", 3,
      "run/checkpoints/graph.json: no such file; --weights names the folder of a run, or of a "
      "checkpoint in it");
}
