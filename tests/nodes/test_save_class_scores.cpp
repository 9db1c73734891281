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

TEST_CASE("save_classification adds to the file of an epoch that had no image") {
  const TemporaryFolder folder;
  Driver node("save_classification",
              {{"output_dir", (folder / "new").string()}, {"overwrite", false}});
  node.flush();
  node.fire({sample_of("pred", at::tensor({0.25}))});
  node.flush();
  std::ifstream file(folder / "new/predictions.csv");
  CHECK(std::string{std::istreambuf_iterator<char>(file), {}} == "case,0.25\n");
}
