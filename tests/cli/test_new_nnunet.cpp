// `sluice new segmentation --recipe nnunet`: plans, and graphs that train as they are.
#include <doctest/doctest.h>

#include "tests/cli/nii.h"
#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const json binary{{"background", 0}, {"ball", 1}};
const json regions{{"background", 0}, {"whole", {1, 2}}, {"core", 2}};

struct Workplace {
  Folder folder;

  std::filesystem::path at(const std::string& name) const { return folder.path / name; }
  shell::Result run(const std::string& command) const {
    return shell::run("cd " + folder.path.string() + " && $SLUICE " + command);
  }
  // Six cases of two channels in nnU-Net's layout.
  void make(json labels = binary, nii::Spacing spacing = {1, 1, 1}) const {
    for (int i = 0; i < 6; ++i) {
      const std::string name = "case_" + std::to_string(i);
      nii::Size size{14 + i % 3, 16, 15};
      const auto ball = [&](int x, int y, int z) {
        return (x - 7) * (x - 7) + (y - 8) * (y - 8) + (z - 7) * (z - 7);
      };
      for (const char* channel : {"_0000", "_0001"})
        nii::write(
            at("data/imagesTr/" + name + channel + ".nii"), size, spacing,
            [&](int x, int y, int z) {
              const int r = ball(x, y, z);
              return r > 40 ? 0 : r < 16 ? float(100 + (3 * x + y + z) % 7) : 40 + float(r % 5);
            });
      nii::write(at("data/labelsTr/" + name + ".nii"), size, spacing, [&](int x, int y, int z) {
        const bool two = labels.size() > 2;
        const int r = ball(x, y, z);
        return float(r < (two ? 4 : 16) ? (two ? 2 : 1) : r < 16 ? 1 : 0);
      });
    }
    json d{{"channel_names", {{"0", "MRI"}, {"1", "CT"}}},
           {"labels", labels},
           {"numTraining", 6},
           {"file_ending", ".nii"}};
    if (labels.size() > 2) d["regions_class_order"] = {1, 2};
    folder.write("data/dataset.json", d.dump());
  }
  void change(const std::string& key, const json& value) const {
    json d = json::parse(folder.read("data/dataset.json"));
    d[key] = value;
    folder.write("data/dataset.json", d.dump());
  }
  // Trains a graph on few batches; the run's summary.
  json train(const std::string& graph, const std::string& out, const std::string& more = "") const {
    const auto ran = run("run " + graph + " --quiet --out " + out +
                         " --set vars.epochs=2 --set vars.batch=2 --set nodes.draw.num_samples=4 "
                         "--set nodes.o_draw.num_samples=2 " +
                         more);
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return json::parse(folder.read(out + "/summary.json"));
  }
};

}  // namespace

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
      " --set vars.batch=2 --set nodes.draw.num_samples=4 "
      "--set nodes.o_draw.num_samples=2 --set +nodes.step.total_steps=2 --quiet ";
  CHECK(w.run("run out/3d_fullres.json --out half --set vars.epochs=1" + few).code == 0);
  CHECK(w.run("run out/3d_fullres.json --resume half --set vars.epochs=2" + few).code == 0);
  CHECK(json::parse(w.folder.read("half/summary.json"))["weights_sha256"] == bits);
  w.train("out/2d.json", "flat");
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
  refused("--folds 1", 2, "2 or more");
  refused("--json", 2, "--plan-only");
  refused("--fingerprint none.json", 3, "none.json");
  CHECK(contains(w.run("new segmentation data --recipe nnunet").err, "-o"));
  CHECK(contains(w.run("new segmentation data --recipe monai -o out").err, "nnunet"));
  w.change("numTraining", 7);
  refused("", 3, "numTraining is 7, and there are 6 cases");
  w.change("numTraining", 6);
  nii::write(w.at("data/labelsTr/case_3.nii"), {14, 16, 15}, {1, 1, 1},
             [](int x, int, int) { return x == 3 ? 5.0f : 0.0f; });
  refused("", 3, "case_3.nii: has label 5");
  w.make();
  nii::write(w.at("data/imagesTr/case_2_0001.nii"), {14, 16, 11}, {1, 1, 1},
             [](int, int, int) { return 1.0f; });
  refused("", 3, "case_2_0001.nii: has another geometry");
  std::filesystem::remove(w.at("data/imagesTr/case_2_0001.nii"));
  refused("", 3, "case_2_0001.nii: no such file");
  w.make();
  for (int i = 0; i < 6; ++i)
    nii::write(w.at("data/labelsTr/case_" + std::to_string(i) + ".nii"), {14 + i % 3, 16, 15},
               {1, 1, 1}, [](int, int, int) { return 0.0f; });
  refused("", 3, "no case has foreground");
}
