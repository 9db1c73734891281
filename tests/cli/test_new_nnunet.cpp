// `sluice new segmentation --recipe nnunet`: plans, and graphs that train as they are.
#include <doctest/doctest.h>

#include <cstdint>

#include "tests/cli/nnunet_workplace.h"

using nlohmann::json;
using namespace nnunet_workplace;

TEST_CASE("the recipe's graphs train, validate and resume to the bit") {
  Workplace w;
  w.make();
  const auto made = w.run("new segmentation data --recipe nnunet -o out");
  INFO(made.err);
  REQUIRE(made.code == 0);
  const auto checked = w.run("check out/2d.json out/3d_fullres.json");
  CHECK(checked.code == 0);
  CHECK(checked.err.empty());  // no warning either
  const json whole = w.train("out/3d_fullres.json", "one");
  CHECK(whole["metrics"].contains("online.ema"));
  CHECK(whole["metrics"].contains("dice.mean"));
  for (const char* name : {"online.class_ball", "dice.class_ball"})
    CHECK(whole["metrics"].contains(name));
  CHECK(std::filesystem::exists(w.at("one/validation/case_0.nii")) +
            std::filesystem::exists(w.at("one/validation/case_1.nii")) +
            std::filesystem::exists(w.at("one/validation/case_2.nii")) +
            std::filesystem::exists(w.at("one/validation/case_3.nii")) +
            std::filesystem::exists(w.at("one/validation/case_4.nii")) +
            std::filesystem::exists(w.at("one/validation/case_5.nii")) ==
        2);
  // The same weights at any number of threads, and when the second epoch is another process's.
  const std::string bits = whole["weights_sha256"];
  CHECK(w.train("out/3d_fullres.json", "two", "--threads 4")["weights_sha256"] == bits);
  // The schedule's end stays where it was.
  const std::string few =
      " --set vars.batch=2 --set nodes.draw.num_samples=6 "
      "--set nodes.o_draw.num_samples=2 --set +nodes.step.total_steps=2 --quiet ";
  CHECK(w.run("run out/3d_fullres.json --out half --set vars.epochs=1" + few).code == 0);
  CHECK(w.run("run out/3d_fullres.json --resume half --set vars.epochs=2" + few).code == 0);
  CHECK(json::parse(w.folder.read("half/summary.json"))["weights_sha256"] == bits);
  // A run alone is a model, with the plans that lie beside its graph.
  const auto asks = w.run("new prediction data/imagesTr --weights one -o of_run.json");
  INFO(asks.err);
  REQUIRE(asks.code == 0);
  CHECK(contains(w.folder.read("of_run.json"), "predicts as nnU-Net does"));
  REQUIRE(w.run("run of_run.json --quiet --out of_run").code == 0);
  for (int i = 0; i < 6; ++i) {
    const std::string name = "case_" + std::to_string(i) + ".nii";
    if (std::filesystem::exists(w.at("one/validation/" + name)))
      CHECK(w.folder.read("one/validation/" + name) ==
            w.folder.read("of_run/segmentations/" + name));
  }
  std::filesystem::rename(w.at("out/nnUNetTrainer__nnUNetPlans__3d_fullres"), w.at("away"));
  const auto lost = w.run("new prediction data/imagesTr --weights one");
  CHECK(lost.code == 3);
  CHECK_MESSAGE(
      contains(lost.err, "one: is a run of data 3d_fullres, and the folder TRAINER__PLANS__3d"),
      lost.err);
  w.train("out/2d.json", "flat");
  // nnU-Net's fold "all": each case is trained on, and is validated as a whole.
  w.train("out/2d.json", "all", "--set vars.fold=-1");
  for (int i = 0; i < 6; ++i)
    CHECK(std::filesystem::exists(w.at("all/validation/case_" + std::to_string(i) + ".nii")));
}

// In both kinds of labels: what is ignored is told apart from background, and is no class.
TEST_CASE("the recipe's graphs leave an ignored label out of losses and scores") {
  for (const bool of_regions : {false, true}) {
    Workplace w;
    json labels = of_regions ? regions : json{{"background", 0}, {"shell", 1}, {"core", 2}};
    labels["ignore"] = 3;
    w.make(labels);
    for (int i = 0; i < 6; ++i)
      nii::write(w.at("data/labelsTr/case_" + std::to_string(i) + ".nii"), {14 + i % 3, 16, 15},
                 {1, 1, 1}, [](int x, int y, int z) {
                   const int r = (x - 7) * (x - 7) + (y - 8) * (y - 8) + (z - 7) * (z - 7);
                   return y < 6 ? 3.0f : r < 4 ? 2.0f : float(r < 16);
                 });
    REQUIRE(w.run("new segmentation data --recipe nnunet -o out").code == 0);
    const std::string graph = w.folder.read("out/3d_fullres.json");
    const std::string number = of_regions ? "2" : "3";
    CHECK(contains(graph, "\"ignore_index\": " + number));
    CHECK(contains(graph, "\"ignore_label\": " + number + " }"));
    CHECK(contains(graph, "[[2], [1, 2], [3]]") == of_regions);
    const json scores = w.train("out/3d_fullres.json", "run")["metrics"];
    CHECK(scores.contains(of_regions ? "dice.class_0" : "dice.class_core"));
    for (const char* ignored : {"dice.class_2", "dice.class_3", "dice.class_ignore"})
      CHECK_FALSE(scores.contains(ignored));
  }
}

TEST_CASE("the recipe's graphs of regions and thick slices train") {
  Workplace w;
  w.make(regions, {1, 1, 4});
  REQUIRE(w.run("new segmentation data --recipe nnunet --planner resenc_m -o out").code == 0);
  const std::string graph = w.folder.read("out/3d_fullres.json");
  CHECK(contains(graph, "residual_encoder_unet"));
  CHECK(contains(graph, "labels_to_regions"));
  const json summary = w.train("out/3d_fullres.json", "run");
  CHECK(summary["metrics"].contains("online.mean"));
}

// A GPU of so little memory that nnU-Net plans a cascade for volumes of 28 voxels.
TEST_CASE(
    "a cascade's second stage trains on the first one's labels, and both predict in one graph") {
  Workplace w;
  const json labels{{"background", 0}, {"shell", 1}, {"core", 2}};
  for (int i = 0; i < 4; ++i) {
    const std::string name = "case_" + std::to_string(i);
    const nii::Size size{28 + i % 3, 28, 27};
    const auto r = [](int x, int y, int z) {
      return (x - 13) * (x - 13) + (y - 14) * (y - 14) + (z - 13) * (z - 13);
    };
    nii::write(
        w.at("data/imagesTr/" + name + "_0000.nii"), size, {1, 1, 1}, [&](int x, int y, int z) {
          const int at = r(x, y, z);
          return at > 160 ? 0.f : at < 60 ? float(100 + (3 * x + y) % 7) : 40.f + float(z % 5);
        });
    nii::write(w.at("data/labelsTr/" + name + ".nii"), size, {1, 1, 1},
               [&](int x, int y, int z) { return float(r(x, y, z) < 25 ? 2 : r(x, y, z) < 60); });
  }
  w.folder.write("data/dataset.json", json{{"channel_names", {{"0", "MRI"}}},
                                           {"labels", labels},
                                           {"numTraining", 4},
                                           {"file_ending", ".nii"}}
                                          .dump());
  const auto made =
      w.run("new segmentation data --recipe nnunet --gpu-memory 0.005 --folds 2 -o out");
  INFO(made.err);
  REQUIRE(made.code == 0);
  const std::string graph = w.folder.read("out/3d_cascade_fullres.json");
  CHECK(contains(graph, "\"in_channels\": 3"));
  const std::string cascade = "out/3d_cascade_fullres.json";
  const auto early = w.run("run " + cascade + " --quiet --no-out");
  CHECK(early.code == 3);
  CHECK(contains(early.err, "every fold of the network before must have been validated"));
  const auto checked = w.run("check " + cascade);
  INFO(checked.err);
  CHECK(checked.code == 0);
  const std::string quick = "--set nodes.v_infer.mirror_axes=[] ";
  w.train("out/3d_lowres.json", "out/3d_lowres/fold=0", quick);
  w.train("out/3d_lowres.json", "out/3d_lowres/fold=1", quick + "--set vars.fold=1");
  // A label of the first stage that the plan lacks would be in no channel.
  std::string labels_of_fold_1;
  for (const auto& file :
       std::filesystem::directory_iterator(w.at("out/3d_lowres/fold=1/validation")))
    labels_of_fold_1 = file.path().filename().string();
  const std::string given = "out/3d_lowres/fold=1/validation/" + labels_of_fold_1;
  std::filesystem::rename(w.at(given), w.at("kept"));
  const int number = labels_of_fold_1[5] - '0';  // of case_N.nii
  nii::write(w.at(given), {28 + number % 3, 28, 27}, {1, 1, 1},
             [](int x, int, int) { return x > 9 ? 3.f : 0.f; });
  const auto odd = w.run("run " + cascade + " --quiet --no-out --steps 4");
  CHECK(odd.code == 3);
  CHECK_MESSAGE(contains(odd.err, given), odd.err);
  CHECK_MESSAGE(contains(odd.err, "voxels are no label from 0 to 2"), odd.err);
  std::filesystem::rename(w.at("kept"), w.at(given));
  const json one = w.train(cascade, "out/one", quick);
  CHECK(one["metrics"].contains("dice.mean"));

  // Both stages from the runs themselves.
  const std::string model = "out/nnUNetTrainer__nnUNetPlans__";
  const std::string asked =
      "new prediction data/imagesTr --weights " + model + "3d_cascade_fullres";
  const auto leave = [&](const std::string& configuration, const std::string& run) {
    w.folder.write(
        "out/" + configuration + "/each.json",
        json{{"path", "vars.fold"}, {"runs", {{{"value", "0"}, {"folder", run}, {"exit", 0}}}}}
            .dump());
  };
  leave("3d_cascade_fullres", "../one");
  const auto alone = w.run(asked + " -o runs.json");
  CHECK(alone.code == 3);
  CHECK_MESSAGE(contains(alone.err, "3d_lowres"), alone.err);
  leave("3d_lowres", "fold=0");
  const auto from_runs = w.run(asked + " -o runs.json");
  INFO(from_runs.err);
  REQUIRE(from_runs.code == 0);
  const std::string unmirrored =
      "--set nodes.infer.mirror_axes=[] --set nodes.before_infer.mirror_axes=[]";
  CHECK(w.run("run runs.json --quiet --out of_runs " + unmirrored).code == 0);

  // The first stage is the one whose labels the run was trained on.
  const std::string left = w.folder.read("out/one/graph.json");
  json changed = json::parse(left);
  for (json& node : changed["nodes"])
    if (node.contains("previous")) node["previous"] = w.at("out/others").string();
  w.folder.write("out/one/graph.json", changed.dump());
  w.folder.write("out/others/each.json", R"({"path": "vars.fold",
    "runs": [{"value": "1", "folder": "../3d_lowres/fold=1", "exit": 0}]})");
  const auto of_others = w.run(asked + " -o others.json");
  CHECK_MESSAGE(of_others.code == 0, of_others.err);
  CHECK(contains(w.folder.read("runs.json"), "out/3d_lowres/fold=0\"]"));
  CHECK(contains(w.folder.read("others.json"), "3d_lowres/fold=1\"]"));
  w.folder.write("out/one/graph.json", left);

  // As nnU-Net's checkpoints, in folders beside each other; the images are those of training.
  for (const auto& [run, to] : {std::pair{"out/3d_lowres/fold=0", "3d_lowres/fold_0"},
                                {"out/one", "3d_cascade_fullres/fold_0"}}) {
    const auto r =
        w.run(std::string("convert ") + run + " " + model + to + "/checkpoint_final.pth");
    INFO(r.err);
    REQUIRE(r.code == 0);
  }
  const auto asks = w.run(asked + " -o p.json");
  INFO(asks.err);
  REQUIRE(asks.code == 0);
  const auto predicts = w.run("run p.json --quiet --out pred " + unmirrored);
  INFO(predicts.err);
  CHECK(predicts.code == 0);
  CHECK(shell::run("cd " + w.folder.path.string() +
                   " && diff -r of_runs/segmentations pred/segmentations")
            .code == 0);
  // A case whose labels of the first stage came from this very fold: what the run validated with.
  const std::string held =
      std::filesystem::exists(w.at("out/one/validation/case_0.nii")) ? "case_0.nii" : "case_1.nii";
  if (std::filesystem::exists(w.at("out/3d_lowres/fold=0/validation/" + held)))
    CHECK(shell::run("cd " + w.folder.path.string() + " && cmp out/one/validation/" + held +
                     " pred/segmentations/" + held)
              .code == 0);
  std::filesystem::rename(w.at(model + "3d_lowres"), w.at("away"));
  CHECK(contains(w.run(asked + " -o q.json").err, "whose model is not beside it"));
}

TEST_CASE("the recipe turns volumes as the reader that dataset.json names turns them") {
  Workplace w;
  w.make(binary, {1, 1.5, 3});
  // In the files i runs to the front, j upwards and k to the right.
  for (const char* folder : {"data/imagesTr", "data/labelsTr"})
    for (const auto& entry : std::filesystem::directory_iterator(w.at(folder))) {
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      const float rows[12] = {0, 0, 3, 0, 1, 0, 0, 0, 0, 1.5, 0, 0};
      file.seekp(280).write(reinterpret_cast<const char*>(rows), sizeof rows);
    }
  const auto measured = [&](const std::string& file) {
    const auto made = w.run(
        "new segmentation data --recipe nnunet --plan-only --json --write-fingerprint " + file);
    INFO(made.err);
    REQUIRE(made.code == 0);
    return std::pair{json::parse(made.out), json::parse(w.folder.read(file))};
  };
  const auto [plain, as_it_lies] = measured("a.json");
  w.change("overwrite_image_reader_writer", "NibabelIOWithReorient");
  const auto [plans, turned] = measured("b.json");
  CHECK(plain["image_reader_writer"] == "NibabelIO");
  CHECK(plans["image_reader_writer"] == "NibabelIOWithReorient");
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(as_it_lies["spacings"][i] == json{3, 1.5, 1});
    CHECK(turned["spacings"][i] == json{1.5, 1, 3});
    const json from = as_it_lies["shapes_after_crop"][i];
    CHECK(turned["shapes_after_crop"][i] == json{from[1], from[2], from[0]});
  }
  CHECK(turned["foreground_intensity_properties_per_channel"]["0"]["max"] ==
        as_it_lies["foreground_intensity_properties_per_channel"]["0"]["max"]);
  REQUIRE(w.run("new segmentation data --recipe nnunet -o out").code == 0);
  CHECK(contains(w.folder.read("out/3d_fullres.json"), "\"orientation\", \"in\": \"case\""));
  const json beside =
      json::parse(w.folder.read("out/nnUNetTrainer__nnUNetPlans__3d_fullres/dataset.json"));
  CHECK(beside["overwrite_image_reader_writer"] == "NibabelIOWithReorient");
  w.train("out/3d_fullres.json", "run", "--set nodes.v_infer.mirror_axes=[]");
}

namespace {

// Uncompressed, 8 bits, a page a slice.
void write_tiff(const std::filesystem::path& file, nii::Size size,
                const std::function<int(int, int, int)>& value) {
  std::string bytes("II*\0", 4);
  const auto put = [&](std::uint32_t n, int count) {
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(n >> 8 * i);
  };
  const auto [columns, rows, pages] = size;
  const int entries = 8, directory = 2 + 12 * entries + 4, pixels = columns * rows;
  put(8, 4);
  for (int z = 0; z < pages; ++z) {
    const auto start = static_cast<std::uint32_t>(bytes.size());
    put(entries, 2);
    const std::pair<int, std::uint32_t> tags[entries] = {{256, static_cast<std::uint32_t>(columns)},
                                                         {257, static_cast<std::uint32_t>(rows)},
                                                         {258, 8},
                                                         {259, 1},
                                                         {262, 1},
                                                         {273, start + directory},
                                                         {278, static_cast<std::uint32_t>(rows)},
                                                         {279, static_cast<std::uint32_t>(pixels)}};
    for (const auto& [tag, n] : tags) {
      put(static_cast<std::uint32_t>(tag), 2);
      put(4, 2);  // LONG
      put(1, 4);
      put(n, 4);
    }
    put(z + 1 < pages ? start + directory + static_cast<std::uint32_t>(pixels) : 0, 4);
    for (int y = 0; y < rows; ++y)
      for (int x = 0; x < columns; ++x) bytes += static_cast<char>(value(x, y, z));
  }
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("volumes in TIFF files are planned with the voxel size that stands beside them") {
  Workplace w;
  for (const char* name : {"a", "b"}) {
    const std::string n = name;
    write_tiff(w.at("data/imagesTr/" + n + "_0000.tif"), {20, 24, 6},
               [](int x, int y, int z) { return 1 + (3 * x + y + 5 * z) % 90; });
    write_tiff(w.at("data/labelsTr/" + n + ".tif"), {20, 24, 6},
               [](int x, int y, int) { return x > 4 && y > 5; });
  }
  w.folder.write("data/dataset.json", json{{"channel_names", {{"0", "EM"}}},
                                           {"labels", binary},
                                           {"numTraining", 2},
                                           {"file_ending", ".tif"}}
                                          .dump());
  w.folder.write("data/imagesTr/a.json", R"({"spacing": [4, 0.5, 0.25]})");
  const std::string asked = "new segmentation data --recipe nnunet --plan-only --json ";
  const auto made = w.run(asked + "--write-fingerprint f.json");
  INFO(made.err);
  REQUIRE(made.code == 0);
  const json found = json::parse(w.folder.read("f.json"));
  CHECK(found["spacings"] == json{{4, 0.5, 0.25}, {1, 1, 1}});  // of b there is no file
  CHECK(found["shapes_after_crop"][0] == json{6, 24, 20});
  CHECK(json::parse(made.out)["image_reader_writer"] == "Tiff3DIO");
  CHECK(json::parse(made.out)["configurations"].contains("3d_fullres"));
  const auto trained = w.run("new segmentation data --recipe nnunet -o out");
  CHECK(trained.code == 3);
  CHECK_MESSAGE(contains(trained.err, "in which training finds no voxel size"), trained.err);
  for (const char* wrong : {R"({"spacing": [1, 2]})", R"({"spacing": [1, 0, 2]})", "{}", "[3]"}) {
    w.folder.write("data/imagesTr/a.json", wrong);
    const auto r = w.run(asked);
    CHECK(r.code == 3);
    CHECK_MESSAGE(contains(r.err, "a.json: has no \"spacing\" of three numbers above 0"), r.err);
  }
}

namespace {

// A .nii of nii::write as .mha, in its place.
void to_meta_image(const std::filesystem::path& file) {
  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::int16_t n[3];
  std::memcpy(n, &bytes[42], sizeof n);
  std::string size;
  for (const int axis : n) size += " " + std::to_string(axis);
  std::filesystem::path to = file;
  std::ofstream(to.replace_extension(".mha"), std::ios::binary)
      << "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
         "CompressedData = False\nTransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 0 0 0\n"
         "ElementSpacing = 1 1 1\nDimSize ="
      << size << "\nElementType = MET_FLOAT\nElementDataFile = LOCAL\n"
      << bytes.substr(352);
  std::filesystem::remove(file);
}

}  // namespace

TEST_CASE("a data set of .mha gets predictions of .mha, which are post-processed as such") {
  Workplace w;
  w.make();
  for (const char* folder : {"data/imagesTr", "data/labelsTr"}) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(w.at(folder)))
      files.push_back(entry.path());
    for (const auto& file : files) to_meta_image(file);
  }
  w.change("file_ending", ".mha");
  REQUIRE(w.run("new segmentation data --recipe nnunet --folds 2 --probabilities -o out").code ==
          0);
  for (const char* configuration : {"2d", "3d_fullres"}) {
    const std::string name = configuration;
    json runs = json::array();
    for (const char* fold : {"0", "1"}) {
      w.train("out/" + name + ".json", "out/" + name + "/fold=" + fold,
              std::string("--set nodes.v_infer.mirror_axes=[] --set vars.fold=") + fold);
      runs.push_back({{"value", fold}, {"folder", std::string("fold=") + fold}, {"exit", 0}});
    }
    w.folder.write("out/" + name + "/each.json",
                   json{{"path", "vars.fold"}, {"runs", runs}}.dump());
  }
  const auto best = w.run("new best_configuration out -o best");
  INFO(best.err);
  REQUIRE(best.code == 0);
  CHECK(contains(best.err, "ensemble___"));
  const auto made = w.run("new postprocessing out/2d -o post.json");
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(contains(w.folder.read("post.json"), "\"*.mha\""));
  std::filesystem::create_directories(w.at("labels"));
  for (const auto& entry : std::filesystem::directory_iterator(w.at("out/2d/fold=0/validation")))
    if (!contains(entry.path().filename().string(), "probabilities"))
      std::filesystem::copy(entry.path(), w.at("labels"));
  REQUIRE(w.run("run post.json --quiet --out post --set vars.segmentations=labels").code == 0);
  int there = 0;
  for (int i = 0; i < 6; ++i)
    there += std::filesystem::exists(w.at("post/postprocessed/case_" + std::to_string(i) + ".mha"));
  CHECK(there == 3);
}

TEST_CASE("the recipe's folds are those of splits_final.json, and one case is trained without") {
  Workplace w;
  w.make();
  for (int i = 3; i < 6; ++i)
    for (const char* file :
         {"imagesTr/case_%_0000.nii", "imagesTr/case_%_0001.nii", "labelsTr/case_%.nii"}) {
      std::string name = file;
      name.replace(name.find('%'), 1, std::to_string(i));
      std::filesystem::remove(w.at("data/" + name));
    }
  w.change("numTraining", 3);
  CHECK(contains(w.run("new segmentation data --recipe nnunet -o out").err, "make no 5 folds"));
  w.folder.write("data/splits_final.json",
                 R"([{"train": ["case_0"], "val": ["case_1"]},
                     {"train": ["case_1", "case_2"], "val": ["case_0"]}])");
  const auto made = w.run("new segmentation data --recipe nnunet -o out");
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(contains(made.err, "--each vars.fold=0,1` trains its folds"));
  CHECK(contains(w.folder.read("out/2d.json"), "by --each vars.fold=0,1;"));
  w.train("out/2d.json", "second", "--set vars.fold=1");
  CHECK(std::filesystem::exists(w.at("second/validation/case_0.nii")));

  Workplace one;
  one.make();
  for (int i = 1; i < 6; ++i)
    for (const char* file :
         {"imagesTr/case_%_0000.nii", "imagesTr/case_%_0001.nii", "labelsTr/case_%.nii"}) {
      std::string name = file;
      name.replace(name.find('%'), 1, std::to_string(i));
      std::filesystem::remove(one.at("data/" + name));
    }
  one.change("numTraining", 1);
  const auto alone = one.run("new segmentation data --recipe nnunet -o out");
  INFO(alone.err);
  REQUIRE(alone.code == 0);
  CHECK(contains(alone.err, "--each vars.fold=-1` trains on the one case"));
  CHECK(contains(one.folder.read("out/2d.json"), "\"fold\": -1,"));
  one.train("out/2d.json", "run");
  CHECK(std::filesystem::exists(one.at("run/validation/case_0.nii")));
}

TEST_CASE("the recipe takes modality in place of channel_names, as nnU-Net does") {
  Workplace w;
  w.make();
  json d = json::parse(w.folder.read("data/dataset.json"));
  d["modality"] = d["channel_names"];
  d.erase("channel_names");
  w.folder.write("data/dataset.json", d.dump());
  REQUIRE(w.run("new segmentation data --recipe nnunet -o out").code == 0);
  w.train("out/2d.json", "run");
}

TEST_CASE("a plan says its reasons, is nnU-Net's JSON, and needs a fingerprint once") {
  Workplace w;
  w.make();
  const auto text =
      w.run("new segmentation data --recipe nnunet --plan-only --write-fingerprint f.json");
  CHECK(text.code == 0);
  CHECK(contains(text.out, "3d_fullres"));
  CHECK(contains(text.out, "batch 2: memory allows"));
  const auto plan =
      w.run("new segmentation data --recipe nnunet --plan-only --fingerprint f.json --json");
  const json plans = json::parse(plan.out);
  CHECK(plans["plans_name"] == "nnUNetPlans");
  CHECK(plans["configurations"]["3d_fullres"]["normalization_schemes"] ==
        json{"ZScoreNormalization", "CTNormalization"});
  CHECK(plans["configurations"]["3d_fullres"]["use_mask_for_norm"] == json{true, false});
  const auto again = w.run("new segmentation data --recipe nnunet --plan-only --json");
  CHECK(json::parse(again.out) == plans);
  std::filesystem::remove_all(w.at("data/imagesTr"));
  CHECK(w.run("new segmentation data --recipe nnunet --plan-only --fingerprint f.json").code == 0);
}

TEST_CASE("a case without foreground trains among others, and a fold beyond the number does not") {
  Workplace w;
  w.make();
  nii::write(w.at("data/labelsTr/case_1.nii"), {15, 16, 15}, {1, 1, 1},
             [](int, int, int) { return 0.0f; });
  REQUIRE(w.run("new segmentation data --recipe nnunet --folds 2 -o out").code == 0);
  for (const char* fold : {"0", "1"})
    CHECK(w.train("out/2d.json", std::string("run") + fold,
                  std::string("--set vars.fold=") + fold)["status"] == "done");
  const auto beyond = w.run("run out/2d.json --no-out --quiet --set vars.fold=2");
  CHECK(beyond.code == 3);
  CHECK(contains(beyond.err, "fold 2 of 2 folds of 6 cases"));
}

TEST_CASE("slices given to a graph of volumes are refused, and named") {
  Workplace w;
  w.make();
  REQUIRE(w.run("new segmentation data --recipe nnunet -o out").code == 0);
  const auto refused = [&](const std::string& extents) {
    const auto r = w.run("run out/3d_fullres.json --quiet --no-out");
    CHECK(r.code == 3);
    INFO(r.err);
    CHECK(contains(r.err, "out/3d_fullres.json:"));
    CHECK(contains(r.err, "nodes.cases: "));
    CHECK(contains(r.err, "_0000.nii is " + extents + ", and no case has more than one slice"));
    CHECK(contains(r.err, "--recipe nnunet` plans 2d for these"));
  };
  const auto make_flat = [&](nii::Size size) {
    for (int i = 0; i < 6; ++i)
      for (const char* file :
           {"imagesTr/case_%_0000.nii", "imagesTr/case_%_0001.nii", "labelsTr/case_%.nii"}) {
        std::string name = file;
        name.replace(name.find('%'), 1, std::to_string(i));
        nii::write(w.at("data/" + name), size, {1, 1, 1},
                   [](int x, int y, int) { return float(x > 4 && y > 4); });
      }
  };
  make_flat({16, 18, 1});
  refused("16 x 18 x 1");
  CHECK(w.run("new segmentation data --recipe nnunet -o flat").code == 0);
  CHECK(std::filesystem::exists(w.at("flat/2d.json")));
  CHECK_FALSE(std::filesystem::exists(w.at("flat/3d_fullres.json")));
  w.train("flat/2d.json", "run");
  // One volume among them is enough, as for nnU-Net.
  for (const char* file :
       {"imagesTr/case_1_0000.nii", "imagesTr/case_1_0001.nii", "labelsTr/case_1.nii"})
    nii::write(w.at(std::string("data/") + file), {16, 18, 9}, {1, 1, 1},
               [](int x, int y, int) { return float(x > 4 && y > 4); });
  w.train("out/3d_fullres.json", "solid", "--set nodes.v_infer.mirror_axes=[]");
}

TEST_CASE("advise prices the whole data set in memory, on disk and on the GPU") {
  Workplace w;
  w.make();
  REQUIRE(w.run("new segmentation data --recipe nnunet -o out").code == 0);
  const auto r = w.run("advise out/3d_fullres.json --seconds 1 --json --quiet --set vars.batch=2");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const json found = json::parse(r.out);
  CHECK(found["sources"][0]["items"] == 4);  // of which 1,500 are drawn in an epoch
  REQUIRE(found["whole_data"].size() > 0);
  const json kept = found["whole_data"][0];
  CHECK(kept["cache"] == "kept");
  CHECK(kept["samples"] == 4);
  // Two float32 channels and a label in a byte of 13 x 13 x 13 voxels, the ball's box, and the
  // places of its classes.
  const double voxels = 4 * 13 * 13 * 13;
  CHECK(kept["bytes"].get<double>() > voxels * 9);
  CHECK(kept["bytes"].get<double>() < voxels * 20);
  CHECK(kept["made_ms"].get<double>() > 0);
  CHECK(kept["memory"]["ms_a_sample"].get<double>() > 0);
  CHECK(kept["disk"]["ms_a_sample"].get<double>() > 0);
  CHECK(kept["best"] == "memory");
}

TEST_CASE("what no plan can be made of is refused, with its place, and nothing is written") {
  Workplace w;
  w.make();
  const auto refused = [&](const std::string& more, int code, const std::string& says) {
    const auto r = w.run("new segmentation data --recipe nnunet -o out " + more);
    CHECK(r.code == code);
    CHECK_MESSAGE(contains(r.err, says), more, ": ", r.err);
    CHECK_FALSE(std::filesystem::exists(w.at("out")));
  };
  refused("--planner resenc_n", 2, "did you mean \"resenc_m\"");
  refused("--gpu-memory -1", 2, "above 0");
  refused("--gpu-memory 0", 2, "above 0");
  refused("--folds 1", 2, "2 or more");
  refused("--gpu-memory 1e-10", 3, "needs 0.001: give that by --gpu-memory");
  refused("--json", 2, "--plan-only");
  refused("--fingerprint none.json", 3, "none.json");
  refused("--folds 7", 3, "6 cases make no 7 folds");
  CHECK(contains(w.run("new segmentation data --recipe nnunet").err, "-o"));
  CHECK(contains(w.run("new segmentation data --recipe monai -o out").err, "nnunet"));
  w.change("numTraining", 7);
  refused("", 3, "numTraining is 7, and there are 6 cases");
  w.change("numTraining", 6);
  w.folder.write("data/splits_final.json", "[]");
  refused("", 3, "splits_final.json: lists no fold");
  std::filesystem::remove(w.at("data/splits_final.json"));
  nii::write(w.at("data/labelsTr/case_3.nii"), {14, 16, 15}, {1, 1, 1},
             [](int x, int, int) { return x == 3 ? 5.0f : 0.0f; });
  refused("", 3, "case_3.nii: has label 5");
  // Said before the cases are read.
  w.folder.write("kept/x", "");
  const auto there = w.run("new segmentation data --recipe nnunet -o kept");
  CHECK(there.code == 2);
  CHECK_MESSAGE(contains(there.err, "kept is there already"), there.err);
  refused("--folds 7", 3, "6 cases make no 7 folds");
  w.make();
  nii::write(w.at("data/imagesTr/case_2_0001.nii"), {14, 16, 11}, {1, 1, 1},
             [](int, int, int) { return 1.0f; });
  refused("", 3, "case_2_0001.nii: has another geometry");
  std::filesystem::remove(w.at("data/imagesTr/case_2_0001.nii"));
  refused("", 3, "case_2_0001.nii: no such file");
  w.make();
  nii::write(w.at("data/imagesTr/case_2_0001.nii"), {16, 16, 15}, {1, 1, 1},
             [](int x, int, int) { return x == 3 ? INFINITY : 1.0f; });
  refused("", 3, "case_2_0001.nii: has values that are NaN or infinite");
  w.make();
  for (int i = 0; i < 6; ++i)
    nii::write(w.at("data/labelsTr/case_" + std::to_string(i) + ".nii"), {14 + i % 3, 16, 15},
               {1, 1, 1}, [](int, int, int) { return 0.0f; });
  refused("", 3, "no case has foreground");
}

namespace {

// Runs of three folds, as they leave their graphs and predictions: the truth and a speck of the
// same label far from it, and of the second label, where there is one, a speck that belongs there.
void leave_runs(const Workplace& w, bool two) {
  json runs = json::array();
  for (int fold = 0; fold < 3; ++fold) {
    const std::string run = "fold=" + std::to_string(fold);
    runs.push_back({{"value", std::to_string(fold)}, {"folder", run}, {"exit", 0}});
    w.leave_graph("runs/" + run, fold);
    for (int i = 0; i < 6; ++i)
      nii::write(w.at("runs/" + run + "/validation/case_" + std::to_string(i) + ".nii"),
                 {14 + i % 3, 16, 15}, {1, 1, 1}, [&](int x, int y, int z) {
                   const int r = (x - 7) * (x - 7) + (y - 8) * (y - 8) + (z - 7) * (z - 7);
                   if (x == 0 && y == 0 && z < 2) return 1.0f;
                   return float(r < (two ? 4 : 16) ? (two ? 2 : 1) : r < 16 ? 1 : 0);
                 });
  }
  w.folder.write("runs/each.json", json{{"path", "vars.fold"}, {"runs", runs}}.dump());
}

}  // namespace

TEST_CASE("new postprocessing keeps the largest component where the folds say that it helps") {
  Workplace w;
  w.make();
  leave_runs(w, false);
  const auto made = w.run("new postprocessing runs -o post.json");
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(contains(made.err, "Dice of 6 cases"));
  CHECK(contains(made.err, "fold=2"));
  CHECK(contains(made.err, " 1.0000"));
  const std::string graph = w.folder.read("post.json");
  CHECK(contains(graph, "\"applied_labels\": [1]"));
  const auto ran =
      w.run("run post.json --quiet --out out --set vars.segmentations=runs/fold=0/validation");
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  // Label 1 of the first voxel is gone.
  const std::string after = w.folder.read("out/postprocessed/case_0.nii");
  CHECK(after[352] == 0);
}

TEST_CASE("new postprocessing of regions scores regions, and changes nothing where nothing helps") {
  Workplace w;
  w.make(regions);
  leave_runs(w, true);
  const auto made = w.run("new postprocessing runs");
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK(contains(made.err, "1+2: "));
  CHECK(contains(made.out, "The foreground as a whole"));
  // Predictions that are the truth.
  for (int fold = 0; fold < 3; ++fold)
    for (int i = 0; i < 6; ++i)
      std::filesystem::copy_file(w.at("data/labelsTr/case_" + std::to_string(i) + ".nii"),
                                 w.at("runs/fold=" + std::to_string(fold) + "/validation/case_" +
                                      std::to_string(i) + ".nii"),
                                 std::filesystem::copy_options::overwrite_existing);
  const auto none = w.run("new postprocessing runs");
  CHECK(none.code == 0);
  CHECK(contains(none.out, "nothing is better"));
  CHECK_FALSE(contains(none.out, "keep_largest"));
}

TEST_CASE(
    "a case without foreground scores 0 where some is predicted, and else not, as nnU-Net's") {
  Workplace w;
  w.make();
  leave_runs(w, false);
  const auto clear = [&](const std::filesystem::path& file) {
    nii::write(file, {14, 16, 15}, {1, 1, 1}, [](int, int, int) { return 0.0f; });
  };
  clear(w.at("data/labelsTr/case_0.nii"));
  CHECK(contains(w.run("new postprocessing runs").err, " 0.8333"));  // of six the other five are 1
  for (int fold = 0; fold < 3; ++fold)
    clear(w.at("runs/fold=" + std::to_string(fold) + "/validation/case_0.nii"));
  const auto both = w.run("new postprocessing runs");
  CHECK(both.code == 0);
  CHECK(contains(both.err, " 1.0000"));
  CHECK_FALSE(contains(both.err, " 0.8333"));
}

TEST_CASE("new postprocessing says what it misses") {
  Workplace w;
  w.make();
  leave_runs(w, false);
  CHECK(contains(w.run("new postprocessing data").err, "no each.json"));
  std::filesystem::remove_all(w.at("runs/fold=1/validation"));
  const auto r = w.run("new postprocessing runs");
  CHECK(r.code == 3);
  CHECK(contains(r.err, "has not validated its fold"));
  std::filesystem::remove(w.at("runs/fold=1/graph.json"));
  CHECK(contains(w.run("new postprocessing runs").err, "fold=1/graph.json: no such file"));
}
