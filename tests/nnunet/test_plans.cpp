// Plans beside nnU-Net's own, number by number.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "engine/base/error.h"
#include "tests/temporary_folder.h"
#include "tools/nnunet/initial_patch.h"
#include "tools/nnunet/planner.h"

namespace fs = std::filesystem;
using namespace sluice;
using namespace sluice::nnunet;

namespace {

void write(const fs::path& file, const Json& json) { std::ofstream(file) << json.dump(); }

Json read(const fs::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

// Equal: integers and texts exactly, other numbers to 1e-9 of their size.
bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>(), y = b.get<double>();
    return std::abs(x - y) <= 1e-9 * std::max(1.0, std::abs(x));
  }
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!same(a[i], b[i])) return false;
    return true;
  }
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.items())
      if (!b.contains(key) || !same(value, b[key])) return false;
    return true;
  }
  return a == b;
}

// The members of `wanted` that `found` has otherwise: "3d_fullres.batch_size: 2, wanted 3".
std::string differences(const Json& found, const Json& wanted, const std::string& path = "") {
  if (!wanted.is_object() || !found.is_object())
    return same(found, wanted) ? ""
                               : path + ": " + found.dump() + ", wanted " + wanted.dump() + "\n";
  std::string all;
  for (const auto& [key, value] : wanted.items())
    all += found.contains(key) ? differences(found[key], value, path + "." + key)
                               : path + " has no " + key + "\n";
  for (const auto& [key, value] : found.items())
    if (!wanted.contains(key)) all += path + " has " + key + " besides\n";
  return all;
}

Plans plans_for(const fs::path& folder, const Json& dataset, const Json& fingerprint,
                const std::string& planner) {
  write(folder / "dataset.json", dataset);
  write(folder / "fingerprint.json", fingerprint);
  const Dataset d = read_dataset(folder);
  return make_plans(d, read_fingerprint(folder / "fingerprint.json", d), *find_planner(planner), 0);
}

std::optional<fs::path> test_data() {
  if (const char* root = std::getenv("SLUICE_TEST_DATA")) return root;
  MESSAGE("skipped: SLUICE_TEST_DATA is not set");
  return std::nullopt;
}

// One of the made-up data sets as nnU-Net would have it.
Json dataset_of(const Json& c, std::size_t cases) {
  Json d{{"channel_names", Json::object()},
         {"labels", c["dataset"]["labels"]},
         {"numTraining", cases},
         {"file_ending", ".nii.gz"}};
  for (std::size_t i = 0; i < c["dataset"]["channel_names"].size(); ++i)
    d["channel_names"][std::to_string(i)] = c["dataset"]["channel_names"][i];
  if (!d["labels"].is_object()) {
    d["labels"] = Json{{"background", 0}};
    for (int i = 1; i < c["dataset"]["labels"].get<int>(); ++i)
      d["labels"]["class" + std::to_string(i)] = i;
  }
  if (c["dataset"].value("ignore", false)) {
    std::int64_t most = 0;
    for (const auto& [name, value] : d["labels"].items())
      for (const auto& v : value.is_array() ? value : Json::array({value}))
        most = std::max(most, v.get<std::int64_t>());
    d["labels"]["ignore"] = most + 1;
  }
  if (c["dataset"].contains("regions_class_order"))
    d["regions_class_order"] = c["dataset"]["regions_class_order"];
  return d;
}

Json fingerprint_of(const Json& c) {
  Json f{{"spacings", Json::array()},
         {"shapes_after_crop", Json::array()},
         {"median_relative_size_after_cropping", c["median_relative_size_after_cropping"]}};
  for (const Json& row : c["cases"])
    for (int i = 0; i < row[0].get<int>(); ++i) {
      f["spacings"].push_back(row[1]);
      f["shapes_after_crop"].push_back(row[2]);
    }
  const Json intensities{{"max", 1000},
                         {"mean", 100},
                         {"median", 90},
                         {"min", -100},
                         {"percentile_00_5", -50},
                         {"percentile_99_5", 900},
                         {"std", 50}};
  for (std::size_t i = 0; i < c["dataset"]["channel_names"].size(); ++i)
    f["foreground_intensity_properties_per_channel"][std::to_string(i)] = intensities;
  return f;
}

// Our plans in the short form of nnunet_plans.json.
Json short_form(const Json& plans) {
  Json out;
  for (const char* key : {"transpose_forward", "original_median_spacing_after_transp",
                          "original_median_shape_after_transp"})
    out[key] = plans[key];
  for (const auto& [name, c] : plans["configurations"].items()) {
    if (c.contains("inherits_from")) {
      out["configurations"][name] = c;
      continue;
    }
    Json& to = out["configurations"][name];
    for (const char* key : {"batch_size", "patch_size", "median_image_size_in_voxels", "spacing",
                            "normalization_schemes", "use_mask_for_norm", "batch_dice"})
      to[key] = c[key];
    if (c.contains("next_stage")) to["next_stage"] = c["next_stage"];
    const Json& a = c["architecture"]["arch_kwargs"];
    for (const char* key :
         {"n_stages", "features_per_stage", "kernel_sizes", "strides", "n_conv_per_stage_decoder"})
      to[key] = a[key];
    to["n_per_stage"] =
        a[a.contains("n_blocks_per_stage") ? "n_blocks_per_stage" : "n_conv_per_stage"];
  }
  return out;
}

const Json small_dataset{{"channel_names", {{"0", "CT"}}},
                         {"labels", {{"background", 0}, {"liver", 1}}},
                         {"numTraining", 2},
                         {"file_ending", ".nii.gz"}};

Json small_fingerprint() {
  return {{"spacings", {{3, 1, 1}, {3, 1, 1}}},
          {"shapes_after_crop", {{60, 200, 200}, {70, 220, 220}}},
          {"median_relative_size_after_cropping", 1.0},
          {"foreground_intensity_properties_per_channel",
           {{"0",
             {{"max", 1},
              {"mean", 0},
              {"median", 0},
              {"min", 0},
              {"percentile_00_5", 0},
              {"percentile_99_5", 1},
              {"std", 1}}}}}};
}

}  // namespace

TEST_CASE("plans of made-up data sets are nnU-Net's") {
  const auto root = test_data();
  if (!root) return;
  const TemporaryFolder folder;
  const Json golden = read(*root / "nnunet_plans.json");
  int compared = 0;
  for (const Json& c : golden["cases"]) {
    const Json fingerprint = fingerprint_of(c);
    for (const auto& [planner, wanted] : c["plans"].items()) {
      CAPTURE(c["id"].get<std::string>());
      CAPTURE(planner);
      const Json found = short_form(plans_json(plans_for(
          folder.path, dataset_of(c, fingerprint["spacings"].size()), fingerprint, planner)));
      CHECK(differences(found, wanted) == "");
      ++compared;
    }
  }
  CHECK(compared == 40);
}

TEST_CASE("the plan of the hippocampus is nnU-Net's plans.json, key for key") {
  const auto root = test_data();
  if (!root) return;
  const TemporaryFolder folder;
  const Json h = read(*root / "nnunet_plans.json")["hippocampus"];
  for (const auto& [planner, file] : {std::pair{"default", "nnUNetPlans.json"},
                                      std::pair{"resenc_m", "nnUNetResEncUNetMPlans.json"}}) {
    Json found = plans_json(plans_for(folder.path, h["dataset"], h["fingerprint"], planner));
    found["dataset_name"] = "Dataset004_Hippocampus";
    CHECK(differences(found, h[file]) == "");
  }
}

TEST_CASE("plans of random data sets are those that nnU-Net makes beside") {
  const char* python = std::getenv("SLUICE_NNUNET_PYTHON");
  if (!python) {
    MESSAGE("skipped: SLUICE_NNUNET_PYTHON names no Python with nnunetv2 2.8.1");
    return;
  }
  const char* count = std::getenv("SLUICE_NNUNET_CASES");
  const char* seed = std::getenv("SLUICE_NNUNET_SEED");
  const TemporaryFolder folder;
  const std::string command =
      std::string(python) + " " SLUICE_SOURCE_DIR "/tests/nnunet/random_plans.py " +
      (count ? count : "20") + " " + (seed ? seed : "1") + " " + (folder.path / "nnunet").string() +
      " > " + (folder.path / "plans.jsonl").string();
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream lines(folder.path / "plans.jsonl");
  int compared = 0;
  for (std::string line; std::getline(lines, line); ++compared) {
    const Json c = Json::parse(line);
    CAPTURE(line.substr(0, 2000));
    const Plans plans = plans_for(folder.path, c["dataset"], c["fingerprint"], c["planner"]);
    Json found = plans_json(plans);
    found["dataset_name"] = c["plans"]["dataset_name"];
    CHECK(differences(found, c["plans"]) == "");
  }
  MESSAGE(compared, " plans compared");
  CHECK(compared > 0);
}

TEST_CASE("a network that pools nothing has no decoder whose scores take memory") {
  // nnunetv2 2.8.1's ExperimentPlanner and nnUNetPlannerResEncM on the same fingerprint.
  Json dataset = small_dataset, fingerprint = small_fingerprint();
  dataset["labels"] = {{"background", 0}, {"a", 1}, {"b", 2}, {"c", 3}};
  dataset["numTraining"] = 100;
  fingerprint["spacings"] = Json(100, {1.0, 0.9, 0.3});
  fingerprint["shapes_after_crop"] = Json(100, {470, 610, 11});
  for (const auto& [planner, batch] : {std::pair{"default", 2350}, std::pair{"resenc_m", 2515}}) {
    const TemporaryFolder folder;
    const Json flat =
        plans_json(plans_for(folder.path, dataset, fingerprint, planner))["configurations"]["2d"];
    CHECK(flat["patch_size"] == Json{610, 11});
    CHECK(flat["architecture"]["arch_kwargs"]["n_stages"] == 1);
    CHECK(flat["batch_size"] == batch);
  }
}

TEST_CASE("every number of a plan has its reason") {
  const TemporaryFolder folder;
  const Plans plans = plans_for(folder.path, small_dataset, small_fingerprint(), "default");
  const std::string text = plans_text(plans);
  for (const char* word :
       {"patch ", "batch ", "spacing ", "stages ", "kernels ", "features ",
        "normalization of channel ct: CTNormalization", "axes 0, 1, 2", "batch Dice"})
    CHECK_MESSAGE(text.find(word) != std::string::npos, word, " is not in ", text);
}

TEST_CASE("a decathlon's dataset.json says the same as nnU-Net's") {
  const TemporaryFolder folder;
  const fs::path task = folder.path / "Task04_Hippocampus";
  fs::create_directories(task);
  write(task / "dataset.json", {{"modality", {{"0", "MRI"}}},
                                {"labels", {{"0", "background"}, {"1", "Anterior"}}},
                                {"training", {{{"image", "./imagesTr/a.nii.gz"}}}}});
  const Dataset d = read_dataset(task);
  CHECK(d.name == "Dataset004_Hippocampus");
  CHECK(d.channels == std::vector<std::string>{"MRI"});
  CHECK(d.training == 1);
  CHECK(d.ending == ".nii.gz");
  CHECK(d.outputs() == 2);
  CHECK(d.classes() == std::vector<std::int64_t>{1});
}

TEST_CASE("a data set's reader is the one that dataset.json names, or that its ending has") {
  const TemporaryFolder folder;
  const auto plans = [&](const Json& more, const Json& fingerprint = small_fingerprint()) {
    Json d = small_dataset;
    d.update(more);
    return plans_for(folder.path, d, fingerprint, "default");
  };
  const auto reader = [&](const Json& more) {
    return plans_json(plans(more))["image_reader_writer"].get<std::string>();
  };
  CHECK(reader(Json::object()) == "SimpleITKIO");
  for (const auto& [ending, wanted] : {std::pair{".nii", "NibabelIO"},
                                       {".nrrd", "SimpleITKIO"},
                                       {".png", "NaturalImage2DIO"},
                                       {".tif", "Tiff3DIO"},  // of volumes, as the fingerprint says
                                       {".tiff", "Tiff3DIO"}})
    CHECK(reader({{"file_ending", ending}}) == wanted);
  Json flat = small_fingerprint();
  flat["spacings"] = Json(2, {999, 1, 1});
  flat["shapes_after_crop"] = Json(2, {1, 200, 200});
  CHECK(plans_json(plans({{"file_ending", ".tif"}}, flat))["image_reader_writer"] ==
        "NaturalImage2DIO");
  const char* key = "overwrite_image_reader_writer";
  for (const char* name : {"SimpleITKIO", "NibabelIO", "NibabelIOWithReorient"})
    CHECK(reader({{key, name}}) == name);
  CHECK(reader({{key, "None"}}) == "SimpleITKIO");
  CHECK(reader({{key, "SimpleITKIO"}, {"file_ending", ".tif"}}) == "SimpleITKIO");
  CHECK(plans_text(plans({{key, "NibabelIO"}})).find("reader NibabelIO: dataset.json names it") !=
        std::string::npos);
  const auto refused = [&](const Json& more, const char* says) {
    const std::string text = message_of([&] { (void)plans(more); });
    CHECK_MESSAGE(text.find(says) != std::string::npos, text);
    CHECK_MESSAGE(text.find("dataset.json:1:") != std::string::npos, text);
  };
  refused({{key, "NibabelIOReorient"}}, "is none of nnU-Net's readers, NaturalImage2DIO, ");
  refused({{key, 3}}, "is none of nnU-Net's readers");
  refused({{key, "NibabelIO"}, {"file_ending", ".mha"}}, "reads .nii and .nii.gz, and no .mha");
}

TEST_CASE("labels of one number are one class of the network, as nnU-Net's") {
  const TemporaryFolder folder;
  Json d = small_dataset;
  d["labels"] = {{"background", 0}, {"left", 1}, {"right", 1}, {"ignore", 2}};
  std::ofstream(folder.path / "dataset.json") << d.dump(1);
  CHECK(read_dataset(folder.path).outputs() == 2);
}

TEST_CASE("a wrong dataset.json is refused with its place") {
  const TemporaryFolder folder;
  const auto refused = [&](const char* key, const Json& value) {
    Json d = small_dataset;
    if (value.is_null())
      d.erase(key);
    else
      d[key] = value;
    std::ofstream(folder.path / "dataset.json") << d.dump(1);
    return message_of([&] { (void)read_dataset(folder.path); });
  };
  const auto has = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text, " does not say ", part);
  };
  has(message_of([&] { (void)read_dataset(folder.path / "none"); }), "dataset.json: no such file");
  has(refused("channel_names", nullptr), "channel_names");
  has(refused("labels", nullptr), "labels");
  has(refused("numTraining", nullptr), "numTraining");
  has(refused("file_ending", nullptr), "file_ending");
  has(refused("file_ending", "nii"), "dataset.json:");
  has(refused("labels", {{"background", 0}, {"a", 2}}), "there is 2 and no 1");
  has(refused("labels", {{"background", 1}, {"a", 0}}), "background has to be 0");
  has(refused("labels", {{"a", 0}}), "has no \"background\"");
  has(refused("labels", {{"background", 0}}), "no label but background");
  has(refused("labels", {{"background", 0}, {"ignore", 1}, {"a", 2}}),
      "ignore has to be the highest");
  has(refused("labels", {{"background", 0}, {"whole", {1, 2}}, {"core", 2}}),
      "regions_class_order");
  has(refused("labels", {{"background", 0}, {"a", "1"}}), "is no whole number");
  has(refused("labels", {{"background", 0}, {"ignore", 1}}), "no label but background");
  has(refused("labels", {{"background", 0}, {"a", 1}, {"ignore", 1}}), "and no other's: it is 1");
  has(refused("labels", {{"background", 0}, {"a", 1}, {"ignore", {2, 3}}}), "ignore is one label");
  has(refused("numTraining", 0), "above 0");
  for (const Json& order : {Json{1, 300}, Json{1, -2}, Json{0, 1}}) {
    Json d = small_dataset;
    d["labels"] = {{"background", 0}, {"whole", {1, 2}}, {"core", 2}};
    d["regions_class_order"] = order;
    std::ofstream(folder.path / "dataset.json") << d.dump(1);
    has(message_of([&] { (void)read_dataset(folder.path); }), ", which no region contains");
  }
  std::ofstream(folder.path / "dataset.json") << "{\"channel_names\": ";
  has(message_of([&] { (void)read_dataset(folder.path); }), "dataset.json:1:");
}

TEST_CASE("a wrong fingerprint is refused with its place") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::function<void(Json&)>& change) {
    Json f = small_fingerprint();
    change(f);
    return message_of([&] { (void)plans_for(folder.path, small_dataset, f, "default"); });
  };
  const auto has = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text, " does not say ", part);
  };
  has(refused([](Json& f) { f["spacings"].erase(1); }), "2 shapes for 1 spacings");
  has(refused([](Json& f) { f["spacings"][0][1] = 0; }), "above 0 mm");
  has(refused([](Json& f) { f["spacings"][0][1] = -1; }), "above 0 mm");
  has(refused([](Json& f) { f["shapes_after_crop"][1][0] = 0; }), "1 voxel or more");
  has(refused([](Json& f) { f["spacings"][0] = {1, 1}; }), "three numbers");
  has(refused([](Json& f) { f.erase("spacings"); }), "spacings");
  has(refused(
          [](Json& f) { f["foreground_intensity_properties_per_channel"]["1"] = Json::object(); }),
      "2 channels; dataset.json names 1");
  has(refused(
          [](Json& f) { f["foreground_intensity_properties_per_channel"]["0"]["mean"] = nullptr; }),
      "no number \"mean\"");
  has(refused([](Json& f) { f["median_relative_size_after_cropping"] = 2; }), "share of voxels");
  CHECK(refused([](Json&) {}).empty());
}

TEST_CASE("a patch below 8 voxels trains without pooling, and the plan says so") {
  const TemporaryFolder folder;
  Json f = small_fingerprint();
  for (Json& shape : f["shapes_after_crop"]) shape = {5, 6, 7};
  const Plans plans = plans_for(folder.path, small_dataset, f, "default");
  CHECK(plans.find("3d_fullres")->stages() == 1);
  CHECK(plans_text(plans).find("does not pool") != std::string::npos);
}

TEST_CASE("a memory that no patch fits into is refused with what would be enough") {
  const TemporaryFolder folder;
  write(folder.path / "dataset.json", small_dataset);
  write(folder.path / "fingerprint.json", small_fingerprint());
  const Dataset d = read_dataset(folder.path);
  const auto with = [&](double gpu_memory) {
    return message_of([&] {
      (void)make_plans(d, read_fingerprint(folder.path / "fingerprint.json", d),
                       *find_planner("default"), gpu_memory);
    });
  };
  const std::string refused = with(1e-10);
  CHECK_MESSAGE(refused.find("no patch is small enough for 1e-10 GB") != std::string::npos,
                refused);
  CHECK_MESSAGE(refused.find("needs 0.001: give that by --gpu-memory") != std::string::npos,
                refused);
  CHECK(with(0.001).empty());
}

TEST_CASE("a plan names the first memory that would change it, at any memory") {
  const TemporaryFolder folder;
  Json f = small_fingerprint();
  for (Json& shape : f["shapes_after_crop"]) shape = {300, 400, 400};
  write(folder.path / "dataset.json", small_dataset);
  write(folder.path / "fingerprint.json", f);
  const Dataset d = read_dataset(folder.path);
  const Fingerprint fingerprint = read_fingerprint(folder.path / "fingerprint.json", d);
  const auto full = [&](double gpu_memory) {
    return *make_plans(d, fingerprint, *find_planner("default"), gpu_memory).find("3d_fullres");
  };
  for (const double memory : {0.5, 8.0, 11.0, 24.0}) {
    const Configuration c = full(memory);
    std::string wanted = "more memory would change nothing";
    for (double gb = std::floor(memory) + 1; gb <= std::max(1.0, 3 * memory); ++gb)
      if (const Configuration other = full(gb);
          other.topology.patch != c.topology.patch || other.batch != c.batch) {
        wanted = "with " + std::to_string(static_cast<int>(gb)) + " GB: patch ";
        break;
      }
    const auto says = [&](const std::string& why) { return why.starts_with(wanted); };
    CHECK_MESSAGE(std::any_of(c.why.begin(), c.why.end(), says), wanted, " at ", memory);
  }
  CHECK(full(1e12).why.back() == "more memory would change nothing");
}

TEST_CASE("patches are cut as large as nnU-Net cuts them before a rotation") {
  const auto root = test_data();
  if (!root) return;
  for (const Json& g : read(*root / "nnunet_golden.json")["initial_patch"]) {
    const Spatial s = spatial_of(g["patch"].get<Ints>());
    INFO(g.dump());
    Ints wanted = g["result"].get<Ints>();
    if (s.dummy_2d) wanted[0] = g["patch"][0];
    if (std::lround(std::min(s.rotation * 180 / M_PI, 90.0)) ==
        std::min(90, g["rotation_deg"].get<int>()))
      CHECK(s.initial == wanted);
  }
  CHECK(spatial_of({40, 56, 40}).initial == Ints{73, 80, 64});
  CHECK(spatial_of({7, 224, 384}).dummy_2d);
  CHECK(spatial_of({224, 384}).rotation == doctest::Approx(15 * M_PI / 180));
  CHECK(spatial_of({320, 256}).turned_freely);
}
