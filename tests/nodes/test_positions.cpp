// Sources that pair files by their position, files that become channels, channels that become
// labels, slices as a 2-D network's images, pictures as results.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <limits>

#include "engine/base/error.h"
#include "engine/base/warnings.h"
#include "engine/state/resource.h"
#include "kernels/files/nifti.h"
#include "kernels/files/volume.h"
#include "kernels/lists/positional_list.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

std::vector<Sample> whole_epoch(Driver& source) {
  std::vector<Sample> all;
  for (std::uint64_t i = 0;; ++i) {
    const Fired fired = source.fire({}, at_index(i));
    if (fired.ended) return all;
    all.push_back(*fired.outs.at(0).sample);
  }
}

std::string path_of(const Sample& s, const std::string& key) {
  return std::filesystem::path(s.at(key).geometry().path).filename().string();
}

}  // namespace

TEST_CASE("path_lists pairs sorted files by position, replaces in names, and takes slices") {
  TemporaryFolder folder;
  for (const char* name : {"a1.nii", "a2.nii", "a3.nii", "a10.nii", ".a4.nii", "b1.nii", "b2.nii"})
    folder.write_text(name, "");
  folder.write_text("list.csv", "id,t2\n1,x.nii\n2,y.nii\n");
  const std::string root = folder.path.string();
  const auto rows = [&](Json params) {
    Driver source("path_lists", params);
    return whole_epoch(source);
  };
  const Json a = root + "/a*.nii";
  const Json label = Json::parse(R"({"glob": ")" + root +
                                 R"(/a*.nii", "replace": [["/a", "/s"], [".nii", "_seg.nii"]]})");
  auto all = rows({{"lists", {{"image", a}, {"label", label}}}});
  REQUIRE(all.size() == 4);  // as Python sorts, without hidden files
  CHECK(path_of(all[1], "image") == "a10.nii");
  CHECK(path_of(all[1], "label") == "s10_seg.nii");
  CHECK(all[1].name == "a10");
  all = rows({{"lists", {{"image", a}}}, {"from", 1}, {"to", -1}});
  REQUIRE(all.size() == 2);
  CHECK(path_of(all[0], "image") == "a10.nii");
  all = rows(
      {{"lists", {{"image", {{"csv", root + "/list.csv"}, {"column", "t2"}, {"prefix", "/d/"}}}}}});
  REQUIRE(all.size() == 2);
  CHECK(all[1].at("image").geometry().path == "/d/y.nii");
  forget_warnings();
  CHECK(rows({{"lists", {{"image", a}, {"label", root + "/b*.nii"}}}}).size() ==
        2);  // the shortest
  REQUIRE(warnings().size() == 1);
  CHECK(warnings()[0].find("there are 4 of \"image\", 2 of \"label\": the first 2 of each are "
                           "taken") != std::string::npos);
  const auto why = [&](Json params) { return message_of([&] { Driver("path_lists", params); }); };
  CHECK(contains(why({{"lists", {{"image", root + "/c*.nii"}}}}), "no file matches"));
  CHECK(contains(why({{"lists", {{"image", root + "/**/a.nii"}}}}), "** is not read"));
  CHECK(
      contains(why({{"lists", {{"image", a}}}, {"from", 9}}), "nothing is left of its 4 samples"));
  const auto faulty = [&](const Json& more) {
    Json list = {{"glob", a}};
    list.update(more);
    return why({{"lists", {{"image", list}}}});
  };
  CHECK(contains(faulty({{"replac", {{"a", "b"}}}}), "image: \"replac\" is not known here"));
  CHECK(contains(faulty({{"column", "t2"}}), "image: \"column\" is not known here"));
  CHECK(contains(faulty({{"replace", "x"}}), "image.replace: expected [[old, new], ...]"));
  CHECK(contains(faulty({{"replace", Json::parse(R"([["x"]])")}}),
                 "image.replace: expected [[old, new], ...]"));
  CHECK(contains(faulty({{"glob", Json::array({a})}}), "image.glob: expected a text"));
  CHECK(contains(why({{"lists", {{"image", {{"csv", root + "/list.csv"}}}}}}),
                 "\"csv\" needs a \"column\""));
}

TEST_CASE("shares of a list are those of MONAI's partition_dataset") {
  // monai.data.partition_dataset(list(range(10)), (4, 1), shuffle=True, seed=0), and by (8, 1, 1)
  Part part{.shares = {4, 1}, .shuffle_shares = true};
  CHECK(part_of(10, part, "") == std::vector<std::size_t>{2, 8, 4, 9, 1, 6, 7, 3});
  part.share = {1};
  CHECK(part_of(10, part, "") == std::vector<std::size_t>{0, 5});
  const Part third{.shares = {8, 1, 1}, .share = {2}};
  CHECK(part_of(10, third, "") == std::vector<std::size_t>{9});
  // partition_dataset(list(range(10)), num_partitions=3, shuffle=True, seed=0), of which
  // select_cross_validation_folds takes 1, and then 0 and 2
  Part fold{.num_partitions = 3, .share = {1}, .shuffle_shares = true};
  CHECK(part_of(10, fold, "") == std::vector<std::size_t>{8, 1, 3});
  fold.share = {0, 2};
  CHECK(part_of(10, fold, "") == std::vector<std::size_t>{2, 9, 7, 5, 4, 6, 0});
  const Part dealt{.num_partitions = 2};
  CHECK(part_of(5, dealt, "") == std::vector<std::size_t>{0, 2, 4});
  fold.share = {3};
  CHECK(contains(message_of([&] { part_of(10, fold, "list"); }),
                 "list: share 3 is not below the number of shares, 3"));
  // which nothing reads
  for (const Part& alone : {Part{.share = {1}}, Part{.shuffle_shares = true}})
    CHECK(contains(message_of([&] { part_of(10, alone, "list"); }),
                   "are of shares or num_partitions"));
}

TEST_CASE("datalist reads paths, numbers and several files of a key, which load_image joins") {
  TemporaryFolder folder;
  for (const char* name : {"t1.nii", "t2.nii"})
    write_nifti(folder.path / name, at::full({1, 2, 3, 4}, name[1] - '0', at::kFloat),
                identity_affine, "float32", 0);
  folder.write_text("list.json", R"({"training": [{"image": ["t1.nii", "t2.nii"], "label": 3,
                                     "kinds": [0, 1]}], "test": ["t2.nii"]})");
  const std::string file = (folder.path / "list.json").string();
  Driver source("datalist", {{"file", file},
                             {"list_key", "training"},
                             {"keys", "image"},
                             {"values", {"label", "kinds"}}});
  const auto all = whole_epoch(source);
  REQUIRE(all.size() == 1);
  CHECK(all[0].tensor("label").item<std::int64_t>() == 3);
  CHECK(all[0].tensor("label").dim() == 0);
  CHECK(all[0].tensor("kinds").sizes() == at::IntArrayRef({2}));
  const Sample loaded = Driver("load_image", {{"keys", "image"}}).fire({all[0]}).samples().at(0);
  CHECK(loaded.tensor("image").sizes() == at::IntArrayRef({2, 2, 3, 4}));
  CHECK(loaded.tensor("image")[1].min().item<float>() == 2);
  CHECK_FALSE(loaded.has("image#1"));
  Driver test("datalist", {{"file", file}, {"list_key", "test"}, {"keys", "image"}});
  CHECK(path_of(whole_epoch(test).at(0), "image") == "t2.nii");
  const auto why = [&](Json params) { return message_of([&] { Driver("datalist", params); }); };
  CHECK(contains(why({{"file", file}, {"list_key", "none"}}), "has no list \"none\""));
  CHECK(contains(why({{"file", file}, {"list_key", "training"}}),
                 "sample 0.label: expected a path, found 3"));
}

TEST_CASE("datalist's fold is that of the entries, as Auto3DSeg's datafold_read takes them") {
  TemporaryFolder folder;
  Json list = Json::array();
  for (int i = 0; i < 5; ++i)
    list.push_back(Json{{"image", std::to_string(i) + ".nii"}, {"fold", i % 3}});
  list.push_back(Json{{"image", "n.nii"}});
  const std::string file = folder.write_text("list.json", list.dump()).string();
  const auto part = [&](const std::string& split, int fold, Json more = Json::object()) {
    more.update({{"file", file}, {"keys", "image"}, {"split", split}, {"fold", fold}});
    Driver source("datalist", more);
    std::string names;
    for (const Sample& s : whole_epoch(source)) names += s.name;
    return names;
  };
  CHECK(part("training", 1) == "023n");
  CHECK(part("validation", 1) == "14");
  CHECK(part("training", -1) == "01234n");
  CHECK(part("training", 1, {{"from", 1}, {"to", 3}}) == "23");
  CHECK(contains(message_of([&] { part("validation", -1); }), "without a fold"));
  CHECK(contains(message_of([&] { part("training", 3); }), "no sample has the \"fold\" 3"));
}

TEST_CASE("datalist leaves out what an entry lacks, where it may") {
  TemporaryFolder folder;
  const std::string file = folder
                               .write_text("list.json", R"([
      {"image": "a.nii"}, {"image": "b.nii", "label": "l.nii", "grade": 2},
      {"image": "c.nii", "label": "m.nii"}, {"image": "d.nii", "grade": 1}])")
                               .string();
  Json params = {{"file", file}, {"values", "grade"}};
  const auto opens = [&] { Driver("datalist", params); };
  CHECK(contains(message_of(opens), "sample 0 has no \"label\"; allow_missing_keys leaves it out"));
  params["allow_missing_keys"] = true;
  Driver source("datalist", params);
  const auto all = whole_epoch(source);
  REQUIRE(all.size() == 4);
  std::string labels, grades;
  for (const Sample& s : all) {
    labels += s.has("label") ? path_of(s, "label").substr(0, 1) : "-";
    grades += s.has("grade") ? std::to_string(s.tensor("grade").item<std::int64_t>()) : "-";
  }
  CHECK(labels == "-lm-");
  CHECK(grades == "-2-1");
  // An entry without any file is none.
  params["keys"] = "label";
  CHECK(contains(message_of(opens), "sample 0 has no file"));
}

TEST_CASE("datalist reads boxes, of which samples have different numbers") {
  TemporaryFolder folder;
  folder.write_text("list.json", R"([
      {"image": "a.nii", "box": [[1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 7]], "label": [0, 1],
       "one": [3]},
      {"image": "b.nii", "box": [], "label": [], "one": [4]},
      {"image": "c.nii", "box": [[7, 7, 7, 8, 8, 8]], "label": [2], "one": [5]}])");
  const std::string file = (folder.path / "list.json").string();
  Driver source("datalist",
                {{"file", file}, {"keys", "image"}, {"values", {"box", "label", "one"}}});
  const auto all = whole_epoch(source);
  REQUIRE(all.size() == 3);
  CHECK(all[0].tensor("box").is_floating_point());
  CHECK(all[0].tensor("box")[1][5].item<float>() == 7);
  CHECK(all[1].tensor("box").sizes() == at::IntArrayRef({0, 6}));
  CHECK(all[1].tensor("label").sizes() == at::IntArrayRef({0}));
  CHECK(all[2].tensor("label").sizes() == at::IntArrayRef({1}));
  CHECK(all[2].tensor("one").sizes() == at::IntArrayRef({1}));  // a list as all are
  const Sample batch = Driver("batch", {{"size", 3}}).gather(all).samples().at(0);
  CHECK(batch.tensor("box").sizes() == at::IntArrayRef({3, 2, 6}));
  CHECK(batch.tensor("box")[1].eq(-1).all().item<bool>());
  CHECK(
      at::equal(batch.tensor("label"), at::tensor({0, 1, -1, -1, 2, -1}, at::kLong).view({3, 2})));
  const auto why = [&](const std::string& box) {
    folder.write_text("list.json", R"([{"image": "a.nii", "box": )" + box + "}]");
    return message_of([&] {
      Driver("datalist", {{"file", file}, {"keys", "image"}, {"values", "box"}});
    });
  };
  CHECK(contains(why("[[1, 2], [3]]"), "\"box\" has rows of different lengths"));
  CHECK(contains(why("[[1, 2], 3]"), "\"box\" has rows of different lengths"));
  CHECK(contains(why("[[1, \"x\"]]"), "\"box\" is no number"));
  CHECK(contains(why("[1, [2]]"), "\"box\" is no number"));
}

TEST_CASE("merge_channels gives the label of the first channel in order that is above 0") {
  const at::Tensor x = at::tensor({1., 0., 0., 1., 1., 0., 0., 1., 0., 1., 0., 0.}).view({3, 4});
  const Json params = {{"keys", "image"}, {"order", {2, 0, 1}}, {"labels", {4, 1, 2}}};
  const Sample out = Driver("merge_channels", params)
                         .fire({sample_of("image", x.view({3, 2, 2}))})
                         .samples()
                         .at(0);
  // torch.where(x[[2]] > 0, 4, torch.where(x[[0]] > 0, 1, torch.where(x[[1]] > 0, 2, 0)))
  CHECK(at::equal(out.tensor("image"), at::tensor({1, 4, 0, 1}, at::kLong).view({1, 2, 2})));
  const Json beyond = {{"keys", "image"}, {"order", {3}}, {"labels", {4}}};
  CHECK(contains(message_of([&] {
                   Driver("merge_channels", beyond).fire({sample_of("image", x.view({3, 2, 2}))});
                 }),
                 "there is no channel 3"));
}

TEST_CASE("sliding_window shows a 2-D network the slices of a volume") {
  struct Flat final : Network {
    using Network::forward;
    Tensors forward(const Tensors& all, std::size_t) override {
      const at::Tensor& x = all[0];
      REQUIRE(x.dim() == 4);
      return {at::cat({x, x - x.mean({2, 3}, true)}, 1)};  // depends on the whole slice
    }
    Named parameters() const override { return {}; }
    void train(bool) override {}
    void initialise(std::uint64_t) override {}
  };
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", std::make_shared<Flat>());
  const at::Tensor x = at::arange(120, at::kFloat).view({1, 4, 6, 5});
  const Json params = {
      {"net", "net"}, {"roi_size", {4, 6, 1}}, {"slice_axis", 2}, {"sw_batch_size", 2}};
  const Sample out =
      Driver("sliding_window", params, context).fire({sample_of("image", x)}).samples().at(0);
  const at::Tensor wanted = at::cat({x, x - x.mean({1, 2}, true)});
  CHECK(at::allclose(out.tensor("pred"), wanted));
  const Json cube = {{"net", "net"}, {"roi_size", {4, 6, 2}}, {"slice_axis", 2}};
  CHECK(
      contains(message_of([&] { Driver("sliding_window", cube, context); }), "1 along that axis"));
}

TEST_CASE("save_image writes pictures, X across, scaled and truncated as MONAI's") {
  TemporaryFolder folder;
  const at::Tensor x = at::tensor({0., .25, .5, 1., 2., -1.}).view({1, 3, 2});
  Json params = {{"keys", "image"}, {"output_dir", folder.path.string()}, {"output_ext", ".png"},
                 {"scale", 255},    {"separate_folder", false},           {"output_postfix", ""}};
  Driver("save_image", params).fire({sample_of("image", x)});
  const Volume v = read_volume((folder.path / "case.png").string(), at::kFloat);
  CHECK(v.data.sizes() == x.sizes());
  CHECK(at::equal(v.data, at::tensor({0.f, 63.f, 127.f, 255.f, 255.f, 0.f}).view({1, 3, 2})));
  // Named after the field's own file, with the folders below data_root_dir.
  Sample named = sample_of("image", x);
  auto meta = std::make_shared<Meta>();
  meta->path = "/data/a/b.c.nii.gz";
  named.set("image", Field(x, meta));
  params["name_by"] = "file";
  params["separate_folder"] = true;
  params["data_root_dir"] = "/data/";
  Driver("save_image", params).fire({named});
  CHECK(std::filesystem::exists(folder.path / "a/b.c/b.c.png"));
  params["data_root_dir"] = "/other";
  CHECK(contains(message_of([&] { Driver("save_image", params).fire({named}); }),
                 "does not lie under data_root_dir"));
  params["scale"] = nullptr;
  const at::Tensor missing = at::full({1, 3, 2}, std::numeric_limits<double>::quiet_NaN());
  for (const at::Tensor& wrong : {x, missing})
    CHECK(contains(
        message_of([&] { Driver("save_image", params).fire({sample_of("image", wrong)}); }),
        "outside of 0..255"));
}
