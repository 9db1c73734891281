// `sluice new best_configuration`: its choice beside nnU-Net's own, and what it refuses.
#include <doctest/doctest.h>

#include <set>

#include "tests/cli/browser.h"
#include "tests/cli/nnunet_workplace.h"

using nlohmann::json;
using namespace nnunet_workplace;
namespace fs = std::filesystem;

namespace {

const json two_labels{{"background", 0}, {"shell", 1}, {"core", 2}};
const std::string model = "nnUNetTrainer__nnUNetPlans__";

// A number of 0 to 1 that looks random.
float noise(int c, int x, int y, int z, int seed) {
  std::uint32_t h = 2654435761u * static_cast<std::uint32_t>(x + 31 * y + 1009 * z + 65537 * c);
  h ^= 40503u * static_cast<std::uint32_t>(seed + 7);
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13, h *= 3266489917u, h ^= h >> 16;
  return static_cast<float>(h & 0xffff) / 65536.0f;
}

// Runs of three folds of a configuration, as they leave graphs, labels and probabilities: the truth
// under noise, and a speck of the second label far from it.
void leave_runs(const Workplace& w, const std::string& configuration, int seed, bool by_region) {
  const auto ran = w.run("run hip/" + configuration + ".json --quiet --steps 1 --out " +
                         configuration + " --set vars.batch=1 --set nodes.draw.num_samples=1");
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  json graph = json::parse(w.folder.read(configuration + "/graph.json"));
  json runs = json::array();
  const int channels = by_region ? 2 : 3;
  for (int fold = 0; fold < 3; ++fold) {
    const std::string run = "fold=" + std::to_string(fold), at = "hip/" + configuration + "/" + run;
    runs.push_back({{"value", std::to_string(fold)}, {"folder", run}, {"exit", 0}});
    for (json& node : graph["nodes"])
      if (node.contains("fold")) node["fold"] = fold;
    w.folder.write(at + "/graph.json", graph.dump());
    for (const int i : {2 * fold, 2 * fold + 1}) {
      const std::string file = at + "/validation/case_" + std::to_string(i);
      const nii::Size size{14 + i % 3, 16, 15};
      const auto probability = [&](int c, int x, int y, int z) {
        const int r = (x - 7) * (x - 7) + (y - 8) * (y - 8) + (z - 7) * (z - 7);
        const bool speck = x == 0 && y == 0 && z < 3, core = r < 4 || speck,
                   shell = r < 16 && !core;
        const bool is = by_region ? (c == 0 ? core || shell : core)
                                  : (c == 0   ? !core && !shell
                                     : c == 1 ? shell
                                              : core);
        return 0.8f * noise(c, x, y, z, seed + 10 * i) + (is ? 0.2f : 0.0f);
      };
      nii::write_channels(w.at(file + "_probabilities.nii"), size, {1, 1, 1}, channels,
                          probability);
      nii::write(w.at(file + ".nii"), size, {1, 1, 1}, [&](int x, int y, int z) {
        int label = 0;
        for (int c = by_region ? 0 : 1; c < channels; ++c)
          if (by_region ? probability(c, x, y, z) > 0.5f
                        : probability(c, x, y, z) > probability(label, x, y, z))
            label = by_region ? c + 1 : c;
        return float(label);
      });
    }
  }
  w.folder.write("hip/" + configuration + "/each.json",
                 json{{"path", "vars.fold"}, {"runs", runs}}.dump());
}

// Two configurations' runs, and the plans that they were made by.
void make(const Workplace& w, const json& labels) {
  w.make(labels);
  json folds = json::array();
  for (int fold = 0; fold < 3; ++fold) {
    json fits{{"train", json::array()}, {"val", json::array()}};
    for (int i = 0; i < 6; ++i)
      fits[i / 2 == fold ? "val" : "train"].push_back("case_" + std::to_string(i));
    folds.push_back(fits);
  }
  w.folder.write("data/splits_final.json", folds.dump());
  const auto planned = w.run("new segmentation data --recipe nnunet --folds 3 -o hip");
  INFO(planned.err);
  REQUIRE(planned.code == 0);
  const bool by_region = labels == regions;
  leave_runs(w, "2d", 1, by_region);
  leave_runs(w, "3d_fullres", 2, by_region);
}

void must_be_near(const json& found, const json& wanted) {
  INFO(found.dump() << " and nnU-Net's " << wanted.dump());
  REQUIRE(found.size() == wanted.size());
  for (const auto& [name, value] : wanted.items()) {
    REQUIRE(found.contains(name));
    CHECK(found[name].get<double>() == doctest::Approx(value.get<double>()).epsilon(1e-9));
  }
}

}  // namespace

// tests/nnunet/best_configuration.py wrote the golden file of these very runs; where
// SLUICE_NNUNET_PYTHON names a Python with nnunetv2, it is asked again.
TEST_CASE("the best configuration and its post-processing are those that nnU-Net finds") {
  json golden =
      json::parse(std::ifstream(SLUICE_SOURCE_DIR "/tests/golden/nnunet_best_configuration.json"));
  for (const auto& [name, labels] : {std::pair{"labels", two_labels}, {"regions", regions}}) {
    CAPTURE(std::string(name));
    const Workplace w;
    make(w, labels);
    if (const char* python = std::getenv("SLUICE_NNUNET_PYTHON")) {
      const auto asked =
          shell::run("cd " + w.folder.path.string() + " && " + python +
                     " " SLUICE_SOURCE_DIR "/tests/nnunet/best_configuration.py data hip theirs");
      INFO(asked.err);
      REQUIRE(asked.code == 0);
      golden[name] = json::parse(asked.out);
      MESSAGE(name, ": ", asked.out);
    }
    const auto r = w.run("new best_configuration hip -o best");
    INFO(r.err);
    REQUIRE(r.code == 0);
    const json found = json::parse(w.folder.read("best/inference_information.json"));
    const json &best = found["best_model_or_ensemble"], &wanted = golden[name];
    must_be_near(found["all_results"], wanted["all_results"]);
    CHECK(best["selected_model_or_models"] == wanted["selected_model_or_models"]);
    CHECK(best["postprocessing_kwargs"] == wanted["postprocessing_kwargs"]);
    for (const char* when : {"result_on_crossval_pre_pp", "result_on_crossval_post_pp"})
      CHECK(best[when].get<double>() == doctest::Approx(wanted[when].get<double>()).epsilon(1e-9));
    CHECK(found["folds"] == json{0, 1, 2});
    CHECK(found["left_out"].empty());
    // The graph predicts with all folds' runs of what was chosen, and ends as the rule says.
    const std::string graph = w.folder.read("best/predict.json");
    for (const json& chosen : best["selected_model_or_models"])
      CHECK(contains(graph, "hip/" + chosen["configuration"].get<std::string>() + "/fold=2"));
    CHECK(contains(graph, "keep_largest") == !best["postprocessing_kwargs"].empty());
    CHECK(w.run("check best/predict.json").code == 0);
  }
}

TEST_CASE("folds that keep probabilities predict the same labels, and the best and both predict") {
  const Workplace w;
  w.make();
  const auto must_run = [&](const std::string& command) {
    const auto r = w.run(command);
    INFO(command << ": " << r.err);
    REQUIRE(r.code == 0);
  };
  const std::string few =
      " --each vars.fold=0,1 --at-once 2 --threads 1 --step-threads 1 --quiet --set vars.epochs=1"
      " --set vars.batch=2 --set nodes.draw.num_samples=4 --set nodes.o_draw.num_samples=2";
  must_run("new segmentation data --recipe nnunet --folds 2 -o without");
  must_run("new segmentation data --recipe nnunet --folds 2 --probabilities -o hip");
  must_run("run without/2d.json --out without/2d" + few);
  for (const char* name : {"2d", "3d_fullres"})
    must_run(std::string("run hip/") + name + ".json --out hip/" + name + few);
  int cases = 0;
  for (const auto& file : fs::recursive_directory_iterator(w.at("without/2d"))) {
    const std::string name = fs::relative(file.path(), w.at("without")).string();
    if (!name.ends_with(".nii")) continue;
    ++cases;
    CHECK_MESSAGE(w.folder.read("without/" + name) == w.folder.read("hip/" + name), name);
    CHECK(fs::exists(w.at("hip/" + name.substr(0, name.size() - 4) + "_probabilities.nii")));
  }
  CHECK(cases == 6);
  must_run("new best_configuration hip -o best");
  const json found = json::parse(w.folder.read("best/inference_information.json"));
  CHECK(found["all_results"].size() == 3);
  CHECK(found["left_out"].empty());
  must_run("new prediction data/imagesTr --weights hip/" + model + "2d hip/" + model +
           "3d_fullres -o both.json");
  for (const char* graph : {"best/predict", "both"}) {
    must_run(std::string("run ") + graph +
             ".json --quiet --threads 1 --step-threads 1 --set vars.images=data/imagesTr --out " +
             graph);
    CHECK(fs::exists(w.at(std::string(graph) + "/segmentations/case_5.nii")));
  }
}

TEST_CASE("what was not trained or keeps no probabilities is left out, and said") {
  const Workplace w;
  make(w, two_labels);
  fs::remove(w.at("hip/2d/fold=1/validation/case_3_probabilities.nii"));
  const auto r = w.run("new best_configuration hip -o best");
  INFO(r.err);
  REQUIRE(r.code == 0);
  CHECK(contains(r.err, "2d with 3d_fullres: no probabilities beside"));
  CHECK(contains(r.err, "--probabilities"));
  json found = json::parse(w.folder.read("best/inference_information.json"));
  CHECK(found["ensembling_allowed"] == false);
  CHECK(found["all_results"].size() == 2);

  fs::remove(w.at("hip/2d/each.json"));
  REQUIRE(w.run("new best_configuration hip -o one").code == 0);
  found = json::parse(w.folder.read("one/inference_information.json"));
  CHECK(found["all_results"].size() == 1);
  CHECK(contains(found["left_out"][0], "2d: not trained"));
}

TEST_CASE("configurations that cannot be compared are refused, and nothing is written") {
  const Workplace w;
  make(w, two_labels);
  const auto refused = [&](const std::string& more, int code, const std::string& says) {
    const auto r = w.run("new best_configuration " + more);
    CHECK(r.code == code);
    CHECK_MESSAGE(contains(r.err, says), more, ": ", r.err);
    CHECK_FALSE(fs::exists(w.at("best")));
    for (const auto& entry : fs::directory_iterator(w.folder.path))
      CHECK_FALSE(entry.path().filename().string().starts_with(".best"));
  };
  refused("hip", 2, "name a folder with -o");
  refused("none -o best", 3, "no such folder");
  refused("data -o best", 3, "--recipe nnunet");
  const std::string list = w.folder.read("hip/2d/each.json");
  json two = json::parse(list);
  two["runs"].erase(2);
  w.folder.write("hip/2d/each.json", two.dump());
  refused("hip -o best", 3, "2d: has not validated case \"case_4\", which fold=2");
  w.folder.write("hip/2d/each.json", list);
  // An ensemble that fails is made where others may have been written already.
  const std::string odd = "hip/2d/fold=2/validation/case_5_probabilities.nii";
  const std::string whole = w.folder.read(odd);
  nii::write_channels(w.at(odd), {14, 16, 14}, {1, 1, 1}, 3,
                      [](int, int, int, int) { return 0.f; });
  refused("hip -o best", 3, "is of another shape than");
  w.folder.write(odd, whole);
  fs::remove(w.at("hip/2d/fold=0/validation/case_0.nii"));
  refused("hip -o best", 3, "has not validated its fold as a whole");
  for (const char* name : {"2d", "3d_fullres"})
    fs::remove(w.at(std::string("hip/") + name + "/each.json"));
  refused("hip -o best", 3, "not trained");
}

TEST_CASE(
    "report shows all folds on one page: each case, the worst ones, what post-processing does") {
  const Workplace w;
  make(w, two_labels);
  w.folder.write("data/dataset.json", [&] {
    json d = json::parse(w.folder.read("data/dataset.json"));
    d["labels"] = {{"background", 0}, {"</script><img src=x>", 1}, {"core", 2}};
    return d.dump();
  }());
  const auto r = w.run("report hip/3d_fullres -o r.html");
  INFO(r.err);
  REQUIRE(r.code == 0);
  const std::string page = w.folder.read("r.html");
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const auto from = page.find(open) + open.size();
  const json data = json::parse(page.substr(from, page.find("</script>", from) - from));
  CHECK(page.find("<img") == std::string::npos);
  REQUIRE(data["cases"].size() == 6);
  CHECK(data["groups"] == json{"</script><img src=x>", "core"});
  CHECK(data["kept"].size() > 0);
  double last = 0;
  for (const json& c : data["cases"]) {  // from the worst to the best
    const double mean = (c["after"][0].get<double>() + c["after"][1].get<double>()) / 2;
    CHECK(mean >= last);
    last = mean;
  }
  // The same Dice as that of the choice.
  REQUIRE(w.run("new best_configuration hip -o best").code == 0);
  const json found = json::parse(w.folder.read("best/inference_information.json"));
  double sum = 0;
  for (const json& c : data["cases"])
    sum += c["before"][0].get<double>() + c["before"][1].get<double>();
  CHECK(found["all_results"][model + "3d_fullres"].get<double>() ==
        doctest::Approx(sum / 12).epsilon(1e-9));
  std::set<int> drawn;
  for (const json& p : data["pictures"]) {
    drawn.insert(p["case"].get<int>());
    CHECK(p["png"].get<std::string>().starts_with("iVBORw0KGgo"));
  }
  CHECK(drawn.size() == 6);
  CHECK_FALSE(fs::exists(w.at("r.html.part.d")));
  if (const std::string program = shell::browser(); !program.empty()) {
    const auto drawn_page = shell::rendered(program, w.at("r.html"));
    CHECK(contains(drawn_page.out, "data-ready=\"yes\""));
    CHECK_FALSE(contains(drawn_page.err, "CONSOLE"));
    CHECK_FALSE(contains(drawn_page.out, "<img src=\"x\""));
    CHECK(contains(drawn_page.out, "Every case"));
  }

  fs::remove(w.at("hip/3d_fullres/fold=1/validation/case_2.nii"));
  const auto part = w.run("report hip/3d_fullres -o part.html");
  CHECK(part.code == 3);
  CHECK(contains(part.err, "has not validated its fold as a whole"));
  CHECK_FALSE(fs::exists(w.at("part.html")));
}
