// `sluice new`: for each layout the graph that it writes is checked and run as it is.
#include <doctest/doctest.h>

#include "tests/cli/new_workplace.h"
#include "tests/cli/nii.h"

using nlohmann::json;

namespace {

std::string number(int i) { return std::to_string(i / 10) + std::to_string(i % 10); }

// `cases` pairs and a dataset.json of the decathlon.
void make_decathlon(const NewWorkplace& w, int cases, nii::Size size, nii::Spacing spacing,
                    const std::string& modality = "MRI", float low = 0) {
  json training = json::array();
  for (int i = 0; i < cases; ++i) {
    const std::string name = "case_" + number(i) + ".nii";
    nii::Size n = size;
    n[0] += i % 3;
    nii::write_pair(w.at("data/imagesTr/" + name), w.at("data/labelsTr/" + name), n, spacing, 1,
                    low);
    training.push_back({{"image", "./imagesTr/" + name}, {"label", "./labelsTr/" + name}});
  }
  w.folder.write("data/dataset.json", json{{"name", "balls"},
                                           {"modality", {{"0", modality}}},
                                           {"labels", {{"0", "background"}, {"1", "left ball"}}},
                                           {"training", training}}
                                          .dump());
}

}  // namespace

TEST_CASE("new segmentation of a decathlon folder: a graph that trains without editing") {
  NewWorkplace w;
  make_decathlon(w, 6, {20, 24, 18}, {1, 1, 1.2f});
  const json summary = w.makes_and_runs("segmentation");
  CHECK(summary.at("status") == "done");
  CHECK(summary.at("samples").at("emitted") == 6);  // 5 and, of the last fifth, 1
  CHECK(summary.at("metrics").contains("val_dice.mean"));
  CHECK(summary.at("metrics").contains("val_dice.class_left ball"));
  const json graph = w.graph();
  CHECK(graph.at("vars").at("spacing") == json{1, 1, 1.2});
  CHECK(graph.at("models").at("net").at("out_channels") == 2);
  CHECK(graph.at("nodes").at("train").at("val_frac") == 0.2);
  CHECK_FALSE(graph.at("nodes").contains("flip"));  // a label is called left
  const json patch = graph.at("vars").at("patch"),
             strides = graph.at("models").at("net")["strides"];
  for (const json& n : patch) CHECK(n.get<int>() % (1 << strides.size()) == 0);
}

TEST_CASE("new says what it saw and writes the same graph each time, to stdout without -o") {
  NewWorkplace w;
  make_decathlon(w, 6, {20, 24, 18}, {1, 1, 1.2f});
  const auto once = w.run("new segmentation data"), again = w.run("new segmentation data");
  CHECK(once.code == 0);
  CHECK(once.out == again.out);
  CHECK(once.out.starts_with("{\n  // "));
  for (const char* text : {"Medical Segmentation Decathlon", "5 for training, 1 for validation",
                           "MRI", "1 x 1 x 1.2 mm", "values 0, 1 in 6 volumes"})
    CHECK(once.err.find(text) != std::string::npos);
  w.folder.write("graph.json", "mine");
  const auto kept = w.run("new segmentation data -o graph.json");
  CHECK(kept.code == 2);
  CHECK(kept.err.find("is there already") != std::string::npos);
  CHECK(w.folder.read("graph.json") == "mine");
}

TEST_CASE("a label's name with a line end stays within its comment") {
  NewWorkplace w;
  make_decathlon(w, 6, {20, 24, 18}, {1, 1, 1.2f});
  json list = json::parse(w.folder.read("data/dataset.json"));
  list["labels"]["1"] = "front\n  \"name\": \"mine\",";
  w.folder.write("data/dataset.json", list.dump());
  const auto made = w.run("new segmentation data -o graph.json");
  CHECK_MESSAGE(made.code == 0, made.err);
  CHECK(w.graph().at("name") != "mine");
}

TEST_CASE("new scales CT by what the foreground holds and leaves thick slices alone at first") {
  NewWorkplace w;
  make_decathlon(w, 4, {40, 40, 9}, {0.8f, 0.8f, 5}, "CT", -1000);
  REQUIRE(w.run("new segmentation data -o graph.json").code == 0);
  const json graph = w.graph();
  const json norm = graph.at("parts").at("prepare").at("nodes").at("norm");
  CHECK(norm.at("type") == "scale_intensity_range");
  CHECK(norm.at("a_min").get<double>() == doctest::Approx(-900).epsilon(0.03));
  CHECK(norm.at("a_max").get<double>() == doctest::Approx(-860).epsilon(0.03));
  CHECK(graph.at("models").at("net").at("strides").at(0) == json{2, 2, 1});
  CHECK(w.run("check graph.json").code == 0);
}

TEST_CASE("new segmentation of image and label folders makes a mask of 0 and 255") {
  NewWorkplace w;
  for (int i = 0; i < 6; ++i)
    nii::write_pair(w.at("data/images/a" + number(i) + ".nii"),
                    w.at("data/labels/a" + number(i) + ".nii"), {16, 18, 20}, {1, 1, 1}, 255);
  nii::write_pair(w.at("data/images/alone.nii"), "", {16, 18, 20}, {1, 1, 1});
  const json summary = w.makes_and_runs("segmentation");
  CHECK(summary.at("samples").at("emitted") == 6);
  CHECK(summary.at("metrics").contains("val_dice.class_1"));
  const json graph = w.graph();
  CHECK(graph.at("parts").at("loaded").at("nodes").at("mask").at("threshold") == 0.5);
  CHECK(w.run("new segmentation data").err.find("images/alone.nii has no label") !=
        std::string::npos);
}

TEST_CASE("new segmentation of an nnU-Net folder joins its channels, and new prediction after it") {
  NewWorkplace w;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "case_" + number(i);
    nii::write_pair(w.at("data/imagesTr/" + name + "_0000.nii"),
                    w.at("data/labelsTr/" + name + ".nii"), {20, 16, 18}, {1, 1, 1});
    nii::write_pair(w.at("data/imagesTr/" + name + "_0001.nii"), "", {20, 16, 18}, {1, 1, 1}, 1,
                    50);
  }
  for (const char* channel : {"_0000", "_0001"})
    nii::write_pair(w.at(std::string("data/imagesTs/new_1") + channel + ".nii"), "", {23, 16, 18},
                    {1, 1, 1});
  w.folder.write("data/dataset.json",
                 R"({"channel_names": {"0": "T1", "1": "T2"}, "file_ending": ".nii",
                     "labels": {"background": 0, "ball": 1}, "numTraining": 5})");
  const json summary = w.makes_and_runs("segmentation");
  CHECK(summary.at("samples").at("emitted") == 5);
  CHECK(w.graph().at("models").at("net").at("in_channels") == 2);
  CHECK(w.run("check run/graph.json").code == 0);  // without its parts

  const auto made = w.run("new prediction data --weights run -o predict.json");
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto ran = w.run("check predict.json && $SLUICE run predict.json --quiet --out out");
  INFO(ran.err);
  CHECK(ran.code == 0);
  // On the image's own grid, as the same network predicts in any other way.
  const auto shape = w.run(
      "apply rand_flip --param prob=0 --out image=s.npy --json --in image="
      "out/segmentations/new_1_seg.nii.gz");
  REQUIRE(shape.code == 0);
  CHECK(json::parse(shape.out).at("files").at(0).at("shape") == json{1, 23, 16, 18});
}

TEST_CASE("new sees files whose endings are in capitals, as readers do") {
  NewWorkplace w;
  for (const char* name : {"A.NII", "b.nii", "C.Nii"})
    nii::write_pair(w.at(std::string("data/") + name), "", {16, 16, 16}, {2, 2, 2});
  CHECK(w.makes_and_runs("prediction").at("samples").at("emitted") == 3);
  for (const char* name : {"A", "b", "C"})
    CHECK(std::filesystem::exists(w.at(std::string("run/segmentations/") + name + "_seg.nii.gz")));
  nii::write_pair(w.at("pairs/images/A.NII"), w.at("pairs/labels/A.nii"), {16, 16, 16}, {1, 1, 1});
  nii::write_pair(w.at("pairs/images/B.NII"), w.at("pairs/labels/B.NII"), {16, 16, 16}, {1, 1, 1});
  const auto made = w.run("new segmentation pairs");
  CAPTURE(made.err);
  CHECK(made.code == 0);
  CHECK(made.out.find("B.NII") != std::string::npos);
  CHECK(w.run("apply rand_flip --param prob=0 --out image=s.npy --in image=data/A.NII").code == 0);
}

TEST_CASE("new prediction of a folder runs without weights, and says that they are missing") {
  NewWorkplace w;
  for (int i = 0; i < 3; ++i)
    nii::write_pair(w.at("data/b" + number(i) + ".nii"), "", {16, 16, 16}, {2, 2, 2});
  const auto text = w.run("new prediction data");
  CHECK(text.err.find("no --weights") != std::string::npos);
  CHECK(text.out.find("EMPTY") != std::string::npos);
  CHECK(w.makes_and_runs("prediction").at("status") == "done");
  for (int i = 0; i < 3; ++i)
    CHECK(std::filesystem::exists(w.at("run/segmentations/b" + number(i) + "_seg.nii.gz")));
  CHECK(w.run("new prediction data --weights data").err.find("graph.json: no such file") !=
        std::string::npos);
}

TEST_CASE("new prediction with a run's overlapping regions keeps each as a channel") {
  NewWorkplace w;
  nii::write_pair(w.at("data/b.nii"), "", {16, 16, 16}, {2, 2, 2});
  const auto graph_of = [&](const json& loss) {
    json nodes{{"cases", {{"type", "file_list"}, {"root", "data"}, {"pattern", "*.nii"}}},
               {"load", {{"type", "load_image"}, {"in", "cases"}, {"keys", "image"}}},
               {"batch", {{"type", "batch"}, {"in", "load"}}},
               {"fwd", {{"type", "model"}, {"in", "batch"}, {"net", "net"}}},
               {"loss", {{"type", "dice_loss"}, {"in", "fwd"}}}};
    nodes["loss"].update(loss);
    const json net{{"type", "unet"},    {"spatial_dims", 3},  {"in_channels", 1},
                   {"out_channels", 3}, {"channels", {4, 8}}, {"strides", json::array({2})}};
    w.folder.write("run/graph.json", json{{"models", {{"net", net}}}, {"nodes", nodes}}.dump());
    std::filesystem::remove(w.at("graph.json"));
    const auto made = w.run("new prediction data --weights run -o graph.json");
    INFO(made.err);
    REQUIRE(made.code == 0);
    CHECK(w.run("check graph.json && $SLUICE fmt --check graph.json").code == 0);
    return w.graph().at("nodes");
  };
  const json regions = graph_of({{"sigmoid", true}});
  CHECK(regions.at("prob").at("sigmoid") == true);
  CHECK(regions.at("native").at("in") == "prob");
  CHECK(regions.at("label").at("type") == "as_discrete");
  CHECK(regions.at("label").at("threshold") == 0.5);
  for (const json& loss : {json{{"sigmoid", true}, {"to_onehot_y", true}}, json{{"softmax", true}}})
    CHECK(graph_of(loss).at("label").at("type") == "argmax");
}

TEST_CASE("new prediction refuses a network of images with other channels, where it can know") {
  NewWorkplace w;
  nii::write_pair(w.at("data/b.nii"), "", {16, 16, 16}, {2, 2, 2});
  const auto made = [&](const json& transform) {
    const json scale{{"type", "scale_intensity"}, {"in", "load"}, {"keys", "image"}};
    json nodes{{"cases", {{"type", "file_list"}, {"root", "data"}, {"pattern", "*.nii"}}},
               {"load", {{"type", "load_image"}, {"in", "cases"}, {"keys", "image"}}},
               {"scale", scale},
               {"more", {{"in", "scale"}, {"keys", "image"}}},
               {"batch", {{"type", "batch"}, {"in", "more"}}},
               {"fwd", {{"type", "model"}, {"in", "batch"}, {"net", "net"}}}};
    nodes["more"].update(transform);
    const json net{{"type", "unet"},    {"spatial_dims", 3},  {"in_channels", 3},
                   {"out_channels", 2}, {"channels", {4, 8}}, {"strides", json::array({2})}};
    w.folder.write("run/graph.json", json{{"models", {{"net", net}}}, {"nodes", nodes}}.dump());
    return w.run("new prediction data --weights run");
  };
  const auto refused = made({{"type", "orientation"}});
  CHECK(refused.code == 3);
  CHECK(refused.err.find("run: its network takes images of 3 channels, those of data have 1\n") !=
        std::string::npos);
  CHECK(made({{"type", "repeat_channel"}, {"repeats", 3}}).code == 0);
}

TEST_CASE("new names odd cases, and its graph leaves them out") {
  NewWorkplace w;
  make_decathlon(w, 8, {16, 16, 16}, {1, 1, 1});
  const auto ball = w.at("data/labelsTr/case_02.nii");
  nii::write_pair(w.at("other.nii"), ball, {16, 16, 17}, {1, 1, 1});
  std::filesystem::resize_file(w.at("data/imagesTr/case_03.nii"), 5000);
  const auto seen = w.run("new segmentation data");
  CHECK(seen.err.find("case_02.nii is 16 x 16 x 17, its image 18 x 16 x 16") != std::string::npos);
  CHECK(seen.err.find("case_03.nii: ends early") != std::string::npos);
  const json summary = w.makes_and_runs("segmentation");
  CHECK(summary.at("samples").at("quarantined") == 2);
}

TEST_CASE("new refuses what no graph can be right for") {
  NewWorkplace w;
  w.folder.write("empty/readme.txt", "");
  make_decathlon(w, 2, {16, 16, 1}, {1, 1, 1});
  nii::write_pair(w.at("half/images/a.nii"), w.at("half/labels/a.nii"), {9, 9, 9}, {1, 1, 1}, 0.5f);
  nii::write_pair(w.at("half/images/b.nii"), w.at("half/labels/b.nii"), {9, 9, 9}, {1, 1, 1}, 0.5f);
  nii::write_pair(w.at("one/images/a.nii"), w.at("one/labels/a.nii"), {9, 9, 9}, {1, 1, 1});
  w.folder.write("png/dataset.json", R"({"channel_names": {"0": "X"}, "file_ending": ".png"})");
  w.refuses({{"segmentation empty", 3, "no known layout"},
             {"prediction empty", 3, "no known layout"},
             {"segmentation nowhere", 3, "is no folder"},
             {"segmentation data", 3, "want 4 along each axis"},
             {"segmentation half", 3, "a label holds 0.5"},
             {"segmentation one", 3, "fewer than two volumes"},
             {"segmentation png", 3, "written for NIfTI volumes"},
             {"segmentaton data", 2, "did you mean \"segmentation\"?"},
             {"segmentation data --weights run", 2, "--weights is for predictions"},
             {"segmentaton", 2, "did you mean \"segmentation\"?"},
             {"segmentation", 2, "name a folder with data: sluice new segmentation DIR"}});
}

TEST_CASE("new segmentation of real data trains as it is") {
  const std::string data = shell::test_data();
  if (data.empty()) {
    MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    return;
  }
  NewWorkplace w;
  std::filesystem::create_directory_symlink(data + "/Task04_Hippocampus", w.at("data"));
  REQUIRE(w.run("new segmentation data -o graph.json").code == 0);
  const auto ran = w.run(
      "run graph.json --quiet --out run --set run.epochs=1 --set "
      "+nodes.train.limit=8 --set +nodes.val.limit=2");
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(json::parse(w.folder.read("run/summary.json")).at("status") == "done");
}

TEST_CASE("options of nnU-Net's recipe are for the recipe") {
  NewWorkplace w;
  make_decathlon(w, 2, {20, 24, 18}, {1, 1, 1});
  for (const std::string option :
       {"--planner resenc_m", "--gpu-memory 8", "--fingerprint f.json",
        "--write-fingerprint f.json", "--plan-only", "--folds 3", "--probabilities", "--json"}) {
    const auto r = w.run("new segmentation data " + option);
    CAPTURE(option);
    CHECK(r.code == 2);
    CHECK_MESSAGE(r.err.find("requires --recipe") != std::string::npos, r.err);
    CHECK(r.out.empty());
  }
}
