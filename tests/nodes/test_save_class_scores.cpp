// save_class_scores and save_classification: what stands in their files, and of which images.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <fstream>

#include "engine/base/error.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

TEST_CASE("save_class_scores writes a list of classes and scores for each image") {
  const TemporaryFolder folder;
  const Json params = {{"output_dir", folder.path.string()},
                       {"labels", {"Other", "Spindle-Shaped"}}};
  drive("save_class_scores", params, {sample_of("pred", at::tensor({0.25, 0.5, 0.25}))});
  std::ifstream file(folder.path / "case" / "case_trans.json");
  REQUIRE(file);
  CHECK(Json::parse(file) == Json{{{"idx", 0}, {"label", "Other"}, {"score", 0.25}},
                                  {{"idx", 1}, {"label", "Spindle-Shaped"}, {"score", 0.5}}});
}

TEST_CASE(
    "save_class_scores without labels numbers the classes, and names and folders are parameters") {
  const TemporaryFolder folder;
  const Json params = {
      {"output_dir", folder.path.string()}, {"output_postfix", ""}, {"separate_folder", false}};
  drive("save_class_scores", params, {sample_of("pred", at::tensor({1.0, 0.0}).unsqueeze(0))});
  std::ifstream file(folder.path / "case.json");
  REQUIRE(file);
  CHECK(Json::parse(file)[1] == Json{{"idx", 1}, {"label", "label_1"}, {"score", 0.0}});
}

TEST_CASE("save_class_scores refuses a file that another sample of the epoch has written") {
  const TemporaryFolder folder;
  const auto of = [](const char* file) {
    Sample s = sample_of("pred", at::tensor({1.0, 0.0}));
    auto meta = std::make_shared<Meta>();
    meta->path = file;
    s.set("pred", Field(s.tensor("pred"), std::move(meta)));
    return s;
  };
  Driver node("save_class_scores", {{"output_dir", folder.path.string()}});
  node.fire({of("/d/1/x.png")}, at_index(0));
  CHECK(
      contains(message_of([&] { node.fire({of("/d/2/x.png")}, at_index(1)); }),
               "x/x_trans.json is the file of two samples, \"case\" of /d/1/x.png and \"case\" of "
               "/d/2/x.png"));
  node.fire({of("/d/2/x.png")}, at_index(1, 1));  // the next epoch's
}

TEST_CASE("save_classification adds to the file of an epoch that had no image") {
  const TemporaryFolder folder;
  Driver node("save_classification",
              {{"output_dir", (folder / "new").string()}, {"overwrite", false}});
  node.flush();
  node.fire({sample_of("pred", at::tensor({0.25}))});
  node.flush();
  std::ifstream file(folder / "new/predictions.csv");
  CHECK(std::string{std::istreambuf_iterator<char>(file), {}} == "case,0.25\n");
  Driver semicolons("save_classification",
                    {{"output_dir", (folder / "s").string()}, {"delimiter", ";"}});
  for (const char* name : {"a,b", "a;b"}) {
    Sample s = sample_of("pred", at::tensor({0.25}));
    s.name = name;
    semicolons.fire({s});
  }
  semicolons.flush();
  std::ifstream quoted(folder / "s/predictions.csv");
  CHECK(std::string{std::istreambuf_iterator<char>(quoted), {}} == "a,b;0.25\n\"a;b\";0.25\n");
}
