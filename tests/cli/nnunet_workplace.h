// A data set in nnU-Net's layout, small enough to plan, train and score in a test.
#pragma once

#include <doctest/doctest.h>

#include "tests/cli/nii.h"
#include "tests/cli/shell.h"
#include "tests/text.h"

namespace nnunet_workplace {

using nlohmann::json;

inline const json binary{{"background", 0}, {"ball", 1}};
inline const json regions{{"background", 0}, {"whole", {1, 2}}, {"core", 2}};

struct Workplace {
  shell::Folder folder;

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
  // The graph of a fold's run, as it leaves it in its folder.
  void leave_graph(const std::string& run, int fold) const {
    const json source{{"type", "nnunet"},
                      {"root", at("data").string()},
                      {"keys", {"image", "image_1"}},
                      {"split", "validation"},
                      {"fold", fold},
                      {"folds", 3}};
    const json saved{{"type", "save_image"},
                     {"keys", "pred"},
                     {"output_dir", "validation"},
                     {"output_ext", ".nii"}};
    folder.write(run + "/graph.json",
                 json{{"nodes", {{"v_cases", source}, {"v_save", saved}}}}.dump());
  }
  void change(const std::string& key, const json& value) const {
    json d = json::parse(folder.read("data/dataset.json"));
    d[key] = value;
    folder.write("data/dataset.json", d.dump());
  }
  // Trains a graph on few batches; the run's summary.
  json train(const std::string& graph, const std::string& out, const std::string& more = "") const {
    const auto ran = run("run " + graph + " --quiet --out " + out +
                         " --set vars.epochs=2 --set vars.batch=2 --set nodes.draw.num_samples=6 "
                         "--set nodes.o_draw.num_samples=2 " +
                         more);
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return json::parse(folder.read(out + "/summary.json"));
  }
};

}  // namespace nnunet_workplace
