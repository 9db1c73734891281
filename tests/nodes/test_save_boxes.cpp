// save_boxes: one JSON file of all images' boxes.
#include <doctest/doctest.h>

#include <fstream>

#include "engine/base/error.h"
#include "engine/state/list_field.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

Sample found(const std::string& file, const at::Tensor& boxes, const at::Tensor& labels) {
  auto meta = std::make_shared<Meta>();
  meta->path = file;
  Sample s;
  s.name = "case";
  s.set("image", Field(at::zeros({1, 4, 4}), std::move(meta)));
  s.set("box", list_field(boxes));
  s.set("label", list_field(labels));
  return s;
}

}  // namespace

TEST_CASE("save_boxes writes the rows of each image's boxes, without those that fill up") {
  const TemporaryFolder folder;
  Driver node("save_boxes", {{"keys", {"box", "label"}},
                             {"output_dir", folder.path.string()},
                             {"filename", "found.json"}});
  const at::Tensor boxes = at::tensor({0.5F, 1.F, 2.F, 3.F, -1.F, -1.F, -1.F, -1.F}).view({2, 4});
  (void)node.fire({found("a.nii", boxes, at::tensor({std::int64_t{3}, std::int64_t{-1}}))});
  (void)node.fire({found("", at::zeros({0, 4}), at::zeros({0}, at::kLong))});
  (void)node.flush();
  std::ifstream file(folder.path / "found.json");
  CHECK(Json::parse(file) ==
        Json::parse(R"([{"image": "a.nii", "box": [[0.5, 1.0, 2.0, 3.0]], "label": [3]},
                        {"image": "case", "box": [], "label": []}])"));
  CHECK_THROWS_WITH_AS((void)node.fire({found("b.nii", boxes, at::tensor({std::int64_t{3}}))}),
                       doctest::Contains("field \"label\" has shape [1] for 2 boxes"), DataError);
}
