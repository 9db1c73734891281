// nnunet's lists, folds and refusals; concat_items, which makes an image of a case's channels.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "kernels/files/nifti.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

using Names = std::vector<std::string>;

constexpr const char* two_channels =
    R"({"channel_names": {"0": "T1", "1": "T2"}, "labels": {"background": 0, "tumour": 1},
        "numTraining": 12, "file_ending": ".nii.gz"})";

// case_00 ... case_11 and a test case, all files empty.
struct Made : TemporaryFolder {
  Made(const std::string& document = two_channels) {
    write_text("dataset.json", document);
    for (int i = 0; i < 12; ++i) {
      const std::string name = "case_" + std::string(i < 10 ? "0" : "") + std::to_string(i);
      for (const char* channel : {"_0000", "_0001"})
        write_text("imagesTr/" + name + channel + ".nii.gz", "");
      write_text("labelsTr/" + name + ".nii.gz", "");
    }
    for (const char* channel : {"_0000", "_0001"})
      write_text(std::string("imagesTs/other_1") + channel + ".nii.gz", "");
    write_text("imagesTr/notes.txt", "");
  }
  Json params(const Json& more = Json::object()) const {
    Json p{{"root", path.string()}, {"keys", {"t1", "t2"}}};
    p.update(more);
    return p;
  }
};

Names names(const Json& params) {
  Driver source("nnunet", params);
  Names found;
  for (std::uint64_t i = 0;; ++i) {
    const Fired fired = source.fire({}, at_index(i));
    if (fired.ended) return found;
    found.push_back(fired.outs.at(0).sample->name);
  }
}

std::string refusal(const Json& params) {
  return message_of([&] { Driver("nnunet", params); });
}

}  // namespace

TEST_CASE("nnunet takes a picture's colours from one file") {
  TemporaryFolder made;
  const auto write = [&](const char* more = "") {
    made.write_text("dataset.json", std::string(R"({"channel_names": {"0": "R", "1": "G", "2": "B"},
        "labels": {"background": 0, "road": 1}, "numTraining": 2, "file_ending": ".png")") +
                                        more + "}");
  };
  write();
  for (const std::string name : {"a", "b"}) {
    made.write_text("imagesTr/" + name + "_0000.png", "");
    made.write_text("labelsTr/" + name + ".png", "");
  }
  const Json one{{"root", made.path.string()}, {"keys", {"image"}}, {"fold", -1}};
  const auto files = [&] {
    const Fired fired = Driver("nnunet", one).fire({}, at_index(1));
    const Sample& sample = *fired.outs.at(0).sample;
    CHECK(sample.name == "b");
    return std::filesystem::path(sample.at("image").geometry().path).filename().string() + " " +
           std::filesystem::path(sample.at("label").geometry().path).filename().string();
  };
  CHECK(files() == "b_0000.png b.png");
  Json three = one;
  three["keys"] = {"r", "g", "b"};
  CHECK(refusal(three).find("one file of all channels; keys names 3") != std::string::npos);
  made.write_text("imagesTr/b_0001.png", "");
  CHECK(refusal(one).find("b_0001.png: the first case has all channels in one file") !=
        std::string::npos);
  std::filesystem::remove(made.path / "imagesTr/b_0001.png");
  write(R"(, "dataset": {"a": {"images": ["x.png"], "label": "y.png"},
                         "b": {"images": ["imagesTr/b_0000.png"], "label": "labelsTr/b.png"}})");
  made.write_text("x.png", "");
  made.write_text("y.png", "");
  CHECK(files() == "b_0000.png b.png");
}

TEST_CASE("nnunet emits a record a case with a field a channel") {
  Made made;
  Driver source("nnunet", made.params({{"fold", -1}}));
  const Fired fired = source.fire({}, at_index(3));
  const Sample& s = *fired.outs.at(0).sample;
  CHECK(s.name == "case_03");
  CHECK(s.at("t1").geometry().path == (made / "imagesTr/case_03_0000.nii.gz").string());
  CHECK(s.at("t2").geometry().path == (made / "imagesTr/case_03_0001.nii.gz").string());
  CHECK(s.at("label").geometry().path == (made / "labelsTr/case_03.nii.gz").string());
  made.write_text("imagesTr/._case_00_0000.nii.gz", "");  // as macOS puts into archives
  CHECK(names(made.params({{"fold", -1}})).size() == 12);
  CHECK(names(made.params({{"fold", -1}, {"split", "validation"}})) ==
        names(made.params({{"fold", -1}})));  // nnU-Net's "all"
  CHECK(names(made.params({{"fold", -1}, {"limit", 2}})) == Names{"case_00", "case_01"});
  Driver test("nnunet", made.params({{"split", "test"}}));
  const Fired other = test.fire({}, at_index(0));
  CHECK(other.outs.at(0).sample->name == "other_1");
  CHECK_FALSE(other.outs.at(0).sample->has("label"));
}

TEST_CASE("nnunet takes files that dataset.json lists, as nnU-Net does") {
  TemporaryFolder folder;
  for (const char* name : {"raw/b1.nii.gz", "raw/b2.nii.gz", "raw/a1.nii.gz", "raw/a2.nii.gz",
                           "raw/seg_a.nii.gz", "raw/seg_b.nii.gz"})
    folder.write_text(name, "");
  const auto document = [&](const std::string& a) {
    folder.write_text("set/dataset.json",
                      R"({"channel_names": {"0": "T1", "1": "T2"}, "labels": {"background": 0},
                          "file_ending": ".nii.gz", "dataset": {
                            "b": {"images": ["../raw/b1.nii.gz", "../raw/b2.nii.gz"],
                                  "label": "../raw/seg_b.nii.gz"}, "a": )" +
                          a + "}}");
    return Json{{"root", (folder / "set").string()}, {"keys", {"t1", "t2"}}, {"fold", -1}};
  };
  const std::string raw = (folder / "raw").string();
  const Json params = document(R"({"images": [")" + raw + R"(/a1.nii.gz", "../raw/a2.nii.gz"],
                                   "label": "../raw/seg_a.nii.gz"})");
  CHECK(names(params) == Names{"a", "b"});
  Driver source("nnunet", params);
  const Sample first = source.fire({}, at_index(0)).samples().at(0);
  CHECK(first.at("t1").geometry().path == raw + "/a1.nii.gz");
  CHECK(first.at("t2").geometry().path == raw + "/a2.nii.gz");
  CHECK(first.at("label").geometry().path == raw + "/seg_a.nii.gz");
  CHECK(contains(refusal(document(R"({"images": ["x"], "label": "y"})")),
                 "dataset.a is not {\"images\": [a path for each channel]"));
  CHECK(contains(refusal(document(R"({"images": "x"})")), "dataset.a is not"));
  CHECK(contains(refusal(document(R"({"images": ["x", "y"], "label": "z"})")),
                 "x: no such file; channel_names has 2 channels"));
}

TEST_CASE("nnunet expands variables of the environment in listed paths, as nnU-Net does") {
  TemporaryFolder folder;
  for (const char* name : {"raw/a.nii.gz", "raw/seg.nii.gz", "raw/$SLUICE_UNSET-${}/b.nii.gz"})
    folder.write_text(name, "");
  ::setenv("SLUICE_RAW_1", (folder / "raw").c_str(), 1);
  folder.write_text("dataset.json",
                    R"({"channel_names": {"0": "T1", "1": "T2"}, "file_ending": ".nii.gz",
                        "dataset": {"a": {"images": ["$SLUICE_RAW_1/a.nii.gz",
                                                     "${SLUICE_RAW_1}/$SLUICE_UNSET-${}/b.nii.gz"],
                                          "label": "${SLUICE_RAW_1}/seg.nii.gz"}}})");
  Driver source("nnunet", {{"root", folder.path.string()}, {"keys", {"t1", "t2"}}, {"fold", -1}});
  ::unsetenv("SLUICE_RAW_1");
  const Sample one = source.fire({}, at_index(0)).samples().at(0);
  const std::string raw = (folder / "raw").string();
  CHECK(one.at("t1").geometry().path == raw + "/a.nii.gz");
  CHECK(one.at("t2").geometry().path == raw + "/$SLUICE_UNSET-${}/b.nii.gz");
  CHECK(one.at("label").geometry().path == raw + "/seg.nii.gz");
}

TEST_CASE("nnunet takes modality in place of channel_names, as nnU-Net does") {
  Made made(R"({"modality": {"0": "T1", "1": "T2"}, "labels": {"background": 0, "tumour": 1},
                "numTraining": 12, "file_ending": ".nii.gz"})");
  CHECK(names(made.params({{"fold", -1}})).size() == 12);
  made.write_text("dataset.json", R"({"modality": ["T1"], "file_ending": ".nii.gz"})");
  CHECK(contains(refusal(made.params()), "modality is no object"));
}

TEST_CASE("nnunet's folds are nnU-Net's") {
  // scikit-learn's KFold(5, shuffle=True, random_state=12345) of 12, from numpy's RandomState.
  const std::vector<std::vector<int>> folds{{0, 3, 8}, {7, 10, 11}, {6, 9}, {1, 4}, {2, 5}};
  Made made;
  for (int fold = 0; fold < 5; ++fold) {
    Names expected;
    for (int i : folds[std::size_t(fold)])
      expected.push_back("case_" + std::string(i < 10 ? "0" : "") + std::to_string(i));
    const auto held = names(made.params({{"split", "validation"}, {"fold", fold}}));
    CHECK(held == expected);
    auto all = names(made.params({{"fold", fold}}));
    CHECK(all.size() == 12 - expected.size());
    for (const auto& name : held) CHECK(std::count(all.begin(), all.end(), name) == 0);
  }
}

TEST_CASE("nnunet takes the folds of splits_final.json where it is there") {
  Made made;
  made.write_text("splits_final.json",
                  R"([{"train": ["case_01", "case_00"], "val": ["case_07"]}])");
  CHECK(names(made.params()) == Names{"case_00", "case_01"});
  CHECK(names(made.params({{"split", "validation"}})) == Names{"case_07"});
  CHECK(contains(refusal(made.params({{"fold", 1}})), "has no fold 1"));
  made.write_text("splits_final.json", R"([{"train": ["case_99"], "val": []}])");
  CHECK(contains(refusal(made.params()), "there is no case \"case_99\""));
  CHECK(contains(refusal(made.params({{"split", "validation"}})), "leaves no case"));
  made.write_text("splits_final.json", R"({"train": 1})");
  CHECK(contains(refusal(made.params()), "splits_final.json: has no fold"));
}

TEST_CASE("nnunet reads a decathlon folder as it lies, in the folds that nnU-Net has of it") {
  const char* root = std::getenv("SLUICE_TEST_DATA");
  if (!root) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  const std::filesystem::path data = root;
  std::ifstream file(data / "nnunet_plans.json");
  const Json folds = Json::parse(file)["hippocampus"]["folds_val"];
  const std::string task = (data / "Task04_Hippocampus").string();
  for (std::size_t fold = 0; fold < folds.size(); ++fold)
    CHECK(names({{"root", task}, {"split", "validation"}, {"fold", fold}}) ==
          folds[fold].get<Names>());
  CHECK(names({{"root", task}, {"fold", 0}}).size() == 144);
  Driver source("nnunet", {{"root", task}, {"keys", {"t1"}}, {"label_key", "seg"}});
  const Fired fired = source.fire({}, at_index(0));
  CHECK(fired.outs.at(0).sample->has("t1"));
  CHECK(fired.outs.at(0).sample->has("seg"));
}

TEST_CASE("nnunet gives what the stage before predicted, found once at any depth") {
  Made made;
  const auto runs = made / "runs";
  const Json params = made.params(
      {{"fold", -1}, {"limit", 2}, {"previous", runs.string()}, {"previous_key", "low"}});
  CHECK(contains(refusal(params), "runs: no such folder; every fold"));
  made.write_text("runs/fold=0/validation/case_00.nii.gz", "a");
  CHECK(contains(refusal(params), "no case_01.nii.gz below it"));
  made.write_text("runs/fold=1/validation/case_01.nii.gz", "b");
  Driver source("nnunet", params);
  const Fired fired = source.fire({}, at_index(1));
  CHECK(fired.outs.at(0).sample->at("low").geometry().path ==
        (runs / "fold=1/validation/case_01.nii.gz").string());
  made.write_text("runs/fold=2/case_01.nii.gz", "c");
  CHECK(contains(refusal(params), "case \"case_01\" was predicted twice, in "));
}

TEST_CASE("nnunet finds what the stage before predicted by the ending that predictions have") {
  const auto found = [](const std::string& ending, const std::string& prediction,
                        const std::string& document) {
    TemporaryFolder folder;
    for (const char* name : {"a", "b"}) {
      folder.write_text("imagesTr/" + std::string(name) + "_0000" + ending, "");
      folder.write_text("imagesTr/" + std::string(name) + ending, "");
      folder.write_text("labelsTr/" + std::string(name) + ending, "");
      folder.write_text("runs/" + std::string(name) + prediction, "");
    }
    folder.write_text("dataset.json", document);
    Driver source(
        "nnunet",
        {{"root", folder.path.string()}, {"fold", -1}, {"previous", (folder / "runs").string()}});
    const Fired fired = source.fire({}, at_index(1));
    return std::filesystem::path(fired.outs.at(0).sample->at("previous").geometry().path)
        .filename()
        .string();
  };
  const auto nnunet = [](const std::string& ending) {
    return R"({"channel_names": {"0": "T1"}, "file_ending": ")" + ending + "\"}";
  };
  for (const auto& [ending, prediction] : {std::pair{".nii.gz", ".nii.gz"},
                                           {".nii", ".nii"},
                                           {".mha", ".mha"},
                                           {".nrrd", ".nii.gz"},
                                           {".nrrd", ".nrrd"}}) {  // nnU-Net's own
    CAPTURE(ending);
    CHECK(found(ending, prediction, nnunet(ending)) == std::string("b") + prediction);
    CHECK_THROWS_WITH(found(ending, ".mhd", nnunet(ending)),
                      doctest::Contains("below it; every fold"));
  }
  CHECK(found(".nii", ".nii",
              R"({"modality": {"0": "T1"}, "labels": {"0": "background", "1": "x"}, "training": [
                  {"image": "./imagesTr/a.nii", "label": "./labelsTr/a.nii"},
                  {"image": "./imagesTr/b.nii", "label": "./labelsTr/b.nii"}]})") == "b.nii");
}

TEST_CASE("nnunet says what is missing") {
  Made made;
  CHECK(contains(refusal({{"root", made.path.string()}}), "has 2 channels"));
  CHECK(contains(refusal(made.params({{"fold", 5}})), "fold 5 of 5"));
  std::filesystem::remove(made / "imagesTr/case_04_0001.nii.gz");
  CHECK(contains(refusal(made.params()), "imagesTr/case_04_0001.nii.gz: no such file"));
  std::filesystem::remove(made / "imagesTr/case_04_0000.nii.gz");
  CHECK(contains(refusal(made.params()),
                 "dataset.json: numTraining is 12, and there are 11 cases: add what is missing"));
  made.write_text("dataset.json", R"({"channel_names": {"0": "T1", "1": "T2"},
                                      "numTraining": 11, "file_ending": ".nii.gz"})");
  std::filesystem::remove(made / "labelsTr/case_05.nii.gz");
  CHECK(contains(refusal(made.params({{"fold", -1}})), "labelsTr/case_05.nii.gz: no such file"));
  const std::pair<const char*, const char*> documents[] = {
      {R"({"images": []})", "\"training\", as the decathlon's"},
      {R"({"training": [{"image": "a_1.nii.gz"}]})", "keys names 2"},
      {R"({"channel_names": {"1": "CT"}, "file_ending": ".nii.gz"})", "has no \"0\""},
      {R"({"channel_names": [], "file_ending": ".nii.gz"})", "channel_names is no object"},
      {R"({"channel_names": {"0": "CT"}, "file_ending": 3})", "file_ending"},
      {"[", "is not JSON"}};
  for (const auto& [document, why] : documents) {
    made.write_text("dataset.json", document);
    CHECK(contains(refusal(made.params()), why));
    CHECK(contains(refusal(made.params()), "dataset.json"));
  }
}

TEST_CASE("concat_items joins channels and keeps the first one's geometry") {
  Affine moved = identity_affine;
  moved[3] = 7;
  Sample in = sample_of("a", at::full({1, 2, 3, 4}, 1.0f), moved);
  in.set("b", sample_of("b", at::full({2, 2, 3, 4}, 2.0f)).at("b"));
  const Json params{{"keys", {"a", "b"}}, {"name", "image"}};
  const Sample out = drive("concat_items", params, {in}).at(0);
  CHECK(out.tensor("image").sizes().vec() == std::vector<std::int64_t>{3, 2, 3, 4});
  CHECK(at::equal(out.tensor("image").select(0, 0), in.tensor("a")[0]));
  CHECK(at::equal(out.tensor("image").slice(0, 1), in.tensor("b")));
  CHECK(out.at("image").geometry().affine == moved);
  CHECK(out.has("a"));
  Json last = params;
  last["dim"] = -1;
  last["keys"] = {"a", "a"};
  CHECK(drive("concat_items", last, {in}).at(0).tensor("image").size(3) == 8);

  const auto refused = [&](const Json& p, const Sample& s) {
    return message_of([&] { drive("concat_items", p, {s}); });
  };
  Sample flat = in;
  flat.set("b", sample_of("b", at::zeros({1, 2, 3, 5})).at("b"));
  CHECK(contains(refused(params, flat), "field \"b\" has shape [1, 2, 3, 5]"));
  Json far = params;
  far["dim"] = 4;
  CHECK(contains(refused(far, in), "along axis 4"));
  flat.set("b", sample_of("b", at::zeros({1, 2, 3, 4}, at::kInt)).at("b"));
  CHECK(contains(refused(params, flat), "another type"));
  flat.erase("b");
  CHECK(contains(refused(params, flat), "no field \"b\""));
  Json some = params;
  some["allow_missing_keys"] = true;
  CHECK(at::equal(drive("concat_items", some, {flat}).at(0).tensor("image"), in.tensor("a")));
}
