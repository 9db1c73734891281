// save_dicom_seg: its file's bits decoded here, and the whole file by highdicom and dciodvfy where
// they are.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cstdlib>

#include "engine/base/error.h"
#include "tests/dicom_series.h"
#include "tests/nodes/drive.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

const Json codes = {{{"segment_label", "One"},
                     {"segmented_property_category", {"91723000", "SCT", "Anatomical Structure"}},
                     {"segmented_property_type", {"5366008", "SCT", "Hippocampus"}}},
                    {{"segment_label", "Two"},
                     {"segmented_property_category", {"91723000", "SCT", "Anatomical Structure"}},
                     {"segmented_property_type", {"5366008", "SCT", "Hippocampus"}}}};

// What invert leaves: labels on the grid of a series, which the image came from.
Sample labels_on(const fs::path& series, const at::Tensor& labels) {
  Sample s = drive("load_image", {{"keys", "image"}}, {[&] {
                     Sample record;
                     record.name = "case";
                     auto meta = std::make_shared<Meta>();
                     meta->path = series.string();
                     record.set("image", Field(at::Tensor(), std::move(meta)));
                     return record;
                   }()})
                 .at(0);
  s.set("pred", Field(labels, std::make_shared<Meta>(s.at("image").geometry())));
  return s;
}

fs::path save(const Sample& sample, const fs::path& folder, Json params = Json::object()) {
  params["labels"] = params.value("labels", codes);
  params["output_dir"] = folder.string();
  return drive("save_dicom_seg", params, {sample}).at(0).at("pred").geometry().path;
}

std::string refusal(const Sample& sample, const Json& params = Json::object()) {
  const TemporaryFolder folder;
  const std::string why = message_of([&] { save(sample, folder.path, params); });
  CHECK(folder.files() == 0);  // nothing is written
  return why;
}

// The last element is the pixel data: a bit a pixel, frames one after the other.
std::vector<int> bits_of(const fs::path& file, std::size_t count) {
  const Bytes bytes = bytes_of(file);
  std::size_t length = (count + 7) / 8;
  length += length % 2;
  std::vector<int> bits;
  for (std::size_t i = 0; i < count; ++i)
    bits.push_back(bytes.at(bytes.size() - length + i / 8) >> i % 8 & 1);
  return bits;
}

at::Tensor two_labels() {
  at::Tensor t = at::zeros({1, 5, 4, 4}, at::kLong);
  t[0][1][2][0] = 1;
  t[0][4][3][2] = 1;
  t[0][0][0][2] = 2;
  return t;
}

}  // namespace

TEST_CASE("save_dicom_seg writes a frame for each label and slice that it lies in") {
  const dicom_series::Series series;
  const TemporaryFolder out;
  const at::Tensor labels = two_labels();
  const fs::path file = save(labels_on(series.folder / "s", labels), out.path);
  CHECK(file == out / "case_seg.dcm");
  // Frames: label 1 in slices 0 and 2, label 2 in slice 2; rows are Y, columns X.
  const auto bits = bits_of(file, 3 * 20);
  std::size_t i = 0;
  for (const auto& [label, z] : {std::pair{1, 0}, {1, 2}, {2, 2}})
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 5; ++x) CHECK(bits[i++] == int(labels[0][x][y][z].item<int>() == label));
  const Bytes bytes = bytes_of(file);
  const std::string text(bytes.begin(), bytes.end());
  for (const char* part :
       {"1.2.840.10008.5.1.4.1.1.66.4", "1.2.3.4.5.1", "1.2.3.4.5.3", "1.2.3.6", "5366008", "Two"})
    CHECK_MESSAGE(contains(text, part), part);
}

TEST_CASE("save_dicom_seg keeps every voxel, also of frames that end within a byte") {
  const std::pair<int, int> sizes[]{{3, 3}, {5, 2}, {1, 3}, {3, 4}, {7, 3}, {2, 3}, {5, 3}, {7, 5}};
  for (const auto& [columns, rows] : sizes) {
    CAPTURE(columns * rows % 8);
    const dicom_series::Series series(0);
    for (int i = 0; i < 5; ++i)
      series.write({.number = i, .columns = std::uint16_t(columns), .rows = std::uint16_t(rows)});
    at::manual_seed(columns);
    const at::Tensor labels = at::randint(0, 3, {1, columns, rows, 5});
    const TemporaryFolder out;
    const fs::path file = save(labels_on(series.folder / "s", labels), out.path);
    std::vector<int> expected;
    for (const int label : {1, 2})
      for (int z = 0; z < 5; ++z) {
        const at::Tensor frame = (labels[0].select(2, z) == label).to(at::kInt).t().flatten();
        if (frame.any().item<bool>())
          for (std::int64_t i = 0; i < frame.numel(); ++i) expected.push_back(frame[i].item<int>());
      }
    CHECK(bits_of(file, expected.size()) == expected);
  }
}

TEST_CASE("save_dicom_seg says in which characters a label's name is") {
  const dicom_series::Series series;
  const TemporaryFolder out;
  Json labels = codes;
  labels[0]["segment_label"] = "Gefäß";
  const Bytes bytes =
      bytes_of(save(labels_on(series.folder / "s", two_labels()), out.path, {{"labels", labels}}));
  const std::string text(bytes.begin(), bytes.end());
  CHECK(contains(text, "ISO_IR 192"));
  CHECK(contains(text, "Gefäß"));
  labels[0]["segment_label"] = "a\\b";
  CHECK(contains(refusal(labels_on(series.folder / "s", two_labels()), {{"labels", labels}}),
                 "no backslash nor control character"));
}

TEST_CASE("save_dicom_seg gives a label that no voxel has an empty frame, and says it of all") {
  const dicom_series::Series series;
  const TemporaryFolder out;
  const fs::path file =
      save(labels_on(series.folder / "s", at::zeros({1, 5, 4, 4}, at::kFloat)), out.path);
  for (const int bit : bits_of(file, 40)) CHECK(bit == 0);
  const auto says_so = [](const fs::path& of) {
    const Bytes bytes = bytes_of(of);
    return contains({bytes.begin(), bytes.end()}, "No voxel was segmented");
  };
  CHECK(says_so(file));
  at::Tensor one = at::zeros({1, 5, 4, 4});
  one[0][2][1][3] = 2;
  const fs::path second = save(labels_on(series.folder / "s", one), out.path);
  const auto bits = bits_of(second, 40);
  for (int i = 0; i < 40; ++i) CHECK(bits[std::size_t(i)] == int(i == 20 + 5 * 1 + 2));
  CHECK_FALSE(says_so(second));
}

TEST_CASE("save_dicom_seg refuses what does not fit its series, with slices' numbers") {
  const dicom_series::Series series;
  const Sample good = labels_on(series.folder / "s", two_labels());
  {
    Sample s = good;
    auto meta = std::make_shared<Meta>(s.at("pred").geometry());
    meta->affine[3] += 1;
    s.set("pred", Field(s.at("pred").tensor, std::move(meta)));
    CHECK(contains(refusal(s), "the prediction's affine is -9.000000 at [0][3]"));
  }
  {
    Sample s = good;
    s.set("pred", Field(at::zeros({1, 5, 4, 3}), s.at("pred").meta));
    CHECK(contains(refusal(s),
                   "the prediction has 5 x 4 x 3 voxels, its series 5 x 4 x 4 "
                   "(slices 1 to 4); invert brings it there"));
  }
  const auto changed = [&](const dicom_series::Slice& odd) {
    const dicom_series::Series other;
    const Sample s = labels_on(other.folder / "s", two_labels());
    other.write(odd);
    return refusal(s);
  };
  CHECK(contains(changed({.number = 2, .orientation = "0\\1\\0\\1\\0\\0"}),
                 "(slice 3): has another orientation"));
  CHECK(contains(changed({.number = 2, .frame = "none"}), "(slice 3): has no FrameOfReferenceUID"));
  {
    const dicom_series::Series other;
    const Sample s = labels_on(other.folder / "s", two_labels());
    fs::remove(other.folder / other.name(1));
    const std::string why = refusal(s);
    CHECK_MESSAGE(contains(why, "slices are missing between "), why);
    CHECK_MESSAGE(contains(why, "(slice 1) and "), why);
  }
}

TEST_CASE("save_dicom_seg refuses a file that another sample of the epoch has written") {
  const dicom_series::Series series;
  const TemporaryFolder out;
  const Sample one = labels_on(series.folder / "s", two_labels());
  Driver node("save_dicom_seg", {{"labels", codes}, {"output_dir", out.path.string()}});
  node.fire({one}, at_index(0));
  CHECK(contains(message_of([&] { node.fire({one}, at_index(1)); }),
                 "case_seg.dcm is the file of two samples, \"case\" of "));
  node.fire({one}, at_index(0, 1));  // the next epoch's
  Sample outside = one;
  outside.name = "../case";
  CHECK(contains(message_of([&] { node.fire({outside}, at_index(2)); }), "cannot be the name"));
}

TEST_CASE("save_dicom_seg refuses labels that it has no name for, and names that are none") {
  const dicom_series::Series series;
  const Sample good = labels_on(series.folder / "s", two_labels());
  Sample s = good;
  s.set("pred", Field(two_labels() + 1, s.at("pred").meta));
  CHECK(contains(refusal(s), "no whole numbers from 0 to 2, the number of labels"));
  s.set("pred", Field(two_labels() * 0.5, s.at("pred").meta));
  CHECK(contains(refusal(s), "no whole numbers from 0 to 2"));
  s.set("pred", Field(at::zeros({2, 5, 4, 4}), s.at("pred").meta));
  CHECK(contains(refusal(s), "has 2 channels; labels have one: argmax makes it"));
  CHECK(contains(refusal(good, {{"source", "pred"}, {"labels", Json::array()}}),
                 "labels: is no list of 1 to 255 labels"));
  Json bad = codes;
  bad[1]["segmented_property_type"] = {"5366008", "SCT"};
  CHECK(contains(refusal(good, {{"labels", bad}}),
                 "labels[1].segmented_property_type: is no coded term [value, scheme, meaning]"));
  bad = codes;
  bad[0].erase("segment_label");
  CHECK(contains(refusal(good, {{"labels", bad}}), "labels[0].segment_label: is no text"));
  Sample file = good;
  file.set("image", sample_of("image", at::zeros({1, 5, 4, 4})).at("image"));
  CHECK(contains(refusal(file), "which is no folder of a DICOM series"));
}

TEST_CASE("highdicom and dciodvfy accept a segmentation of a real series") {
  const char* data = std::getenv("SLUICE_TEST_DATA");
  const std::string python =
      std::getenv("SLUICE_DICOM_PYTHON") ? std::getenv("SLUICE_DICOM_PYTHON") : SLUICE_PYTHON;
  const auto can = [](const std::string& command) {
    return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
  };
  if (!data || !fs::is_directory(fs::path(data) / "dicom") ||
      !can(python + " -c 'import highdicom'")) {
    MESSAGE("skipped: needs SLUICE_TEST_DATA and highdicom");
    return;
  }
  const TemporaryFolder out;
  at::Tensor labels = at::zeros({1, 35, 51, 32}, at::kByte);
  labels[0].slice(0, 5, 20).slice(1, 10, 30).slice(2, 5, 20).fill_(1);
  labels[0].slice(0, 15, 25).slice(1, 20, 40).slice(2, 15, 32).fill_(2);
  const fs::path series = fs::path(data) / "dicom/hippocampus_crop";
  const fs::path file = save(labels_on(series, labels), out.path);
  const at::Tensor slices = labels[0].permute({2, 1, 0}).contiguous();
  out.write("labels", Bytes(slices.const_data_ptr<std::uint8_t>(),
                            slices.const_data_ptr<std::uint8_t>() + slices.numel()));
  CHECK(can(python + " " SLUICE_SOURCE_DIR "/tests/nodes/dicom_seg_referee.py " + file.string() +
            " " + (out / "labels").string() + " " + series.string()));
  if (can("command -v dciodvfy"))
    CHECK_FALSE(can("dciodvfy " + file.string() + " 2>&1 | grep -E '^Error'"));
}
