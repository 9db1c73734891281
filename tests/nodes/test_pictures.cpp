// JPEG, BMP and TIFF as load_image reads them, made byte by byte or by libjpeg, and image_folder.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <set>

#include "engine/base/error.h"
#include "kernels/lists/class_list.h"
#include "tests/nodes/drive.h"
#include "tests/picture_bytes.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

// w x h pixels of `channels` values; a smooth ramp, so that lossy compression keeps it.
std::uint8_t pixel(int x, int y, int c) {
  return static_cast<std::uint8_t>(40 + 6 * x + 4 * y + 30 * c);
}

Bytes jpeg(int w, int h, int channels) { return jpeg_of(w, h, channels, 100, pixel); }

// 3 x 2, 24 bits: rows from the bottom, blue first, each of a multiple of four bytes.
Bytes bmp() {
  Bytes b{'B', 'M'};
  for (std::uint32_t n : {78u, 0u, 54u, 40u, 3u, 2u}) append(b, n, 4);
  append(b, 1, 2);
  append(b, 24, 2);
  for (std::uint32_t n : {0u, 24u, 0u, 0u, 0u, 0u}) append(b, n, 4);
  for (int y = 1; y >= 0; --y) {
    for (int x = 0; x < 3; ++x)
      for (int c = 2; c >= 0; --c) b.push_back(pixel(x, y, c));
    append(b, 0, 3);
  }
  return b;
}

// 3 x 2, grey, 16 bits, one strip; rows from the top.
Bytes tiff() {
  Bytes b{'I', 'I', 42, 0};
  append(b, 20, 4);
  for (int y = 0; y < 2; ++y)
    for (int x = 0; x < 3; ++x) append(b, 1000u + pixel(x, y, 0), 2);
  const std::uint32_t tags[][2] = {{256, 3}, {257, 2}, {258, 16}, {259, 1}, {262, 1},
                                   {273, 8}, {277, 1}, {278, 2},  {279, 12}};
  append(b, 9, 2);
  for (const auto& [tag, value] : tags) {
    append(b, tag, 2);
    append(b, 3, 2);
    append(b, 1, 4);
    append(b, value, 4);
  }
  append(b, 0, 4);
  return b;
}

Sample path_sample(const std::filesystem::path& path) {
  Sample sample;
  auto meta = std::make_shared<Meta>();
  meta->path = path.string();
  for (const char* key : {"image", "label"}) sample.set(key, Field(at::Tensor(), meta));
  return sample;
}

Sample loaded(const std::filesystem::path& path) {
  return drive("load_image", {{"keys", "image"}}, {path_sample(path)}).at(0);
}

double largest_error(const at::Tensor& image, double base = 0) {
  double worst = 0;
  for (std::int64_t c = 0; c < image.size(0); ++c)
    for (std::int64_t x = 0; x < image.size(1); ++x)
      for (std::int64_t y = 0; y < image.size(2); ++y)
        worst = std::max(
            worst, std::abs(image[c][x][y].item<double>() - base - pixel(int(x), int(y), int(c))));
  return worst;
}

}  // namespace

TEST_CASE("pictures become channels, columns, rows, without geometry") {
  TemporaryFolder folder;
  const at::Tensor grey = loaded(folder.write("a.JPG", jpeg(9, 7, 1))).tensor("image");
  CHECK(grey.sizes() == at::IntArrayRef({1, 9, 7}));
  CHECK(largest_error(grey) <= 1);
  const Sample colour = loaded(folder.write("b.jpeg", jpeg(16, 16, 3)));
  CHECK(colour.tensor("image").sizes() == at::IntArrayRef({3, 16, 16}));
  CHECK(largest_error(colour.tensor("image")) <= 5);  // its colours have half the resolution
  CHECK_FALSE(colour.at("image").geometry().has_affine);
  const at::Tensor b = loaded(folder.write("c.bmp", bmp())).tensor("image");
  CHECK(b.sizes() == at::IntArrayRef({3, 3, 2}));
  CHECK(largest_error(b) == 0);
  const at::Tensor t = loaded(folder.write("d.tif", tiff())).tensor("image");
  CHECK(t.sizes() == at::IntArrayRef({1, 3, 2}));
  CHECK(largest_error(t, 1000) == 0);
}

// 3 x 2 of one bit, with black and white as its colours.
TEST_CASE("a label of one bit a pixel holds 0 and 1, an image black and white") {
  TemporaryFolder folder;
  Bytes b{'B', 'M'};
  for (std::uint32_t n : {70u, 0u, 62u, 40u, 3u, 2u}) append(b, n, 4);
  append(b, 1, 2);
  append(b, 1, 2);
  for (std::uint32_t n : {0u, 8u, 0u, 0u, 2u, 0u}) append(b, n, 4);
  for (std::uint32_t n : {0u, 0xffffffu, 0x20u, 0xA0u}) append(b, n, 4);  // rows from the bottom
  const Sample paths = path_sample(folder.write("mask.bmp", b));
  const Sample read = drive("load_image", {{"max_label", 1}}, {paths}).at(0);
  const at::Tensor mask = at::tensor({1., 0., 1., 0., 0., 1.}).view({2, 3}).t().unsqueeze(0);
  CHECK(read.tensor("label").to(at::kDouble).equal(mask));
  CHECK(read.tensor("image").to(at::kDouble).equal(255 * mask));
}

TEST_CASE("pictures that end early or are no pictures are refused by name") {
  TemporaryFolder folder;
  const auto refused = [&](const std::string& name, Bytes bytes, std::size_t size) {
    bytes.resize(size);
    return message_of([&] { loaded(folder.write(name, bytes)); });
  };
  const Bytes j = jpeg(32, 32, 3);
  CHECK(contains(refused("a.jpg", j, j.size() / 2), "a.jpg: Premature end of JPEG file"));
  CHECK(contains(refused("a.jpg", j, 10), "a.jpg: "));
  CHECK(contains(refused("a.jpg", Bytes(100, 'x'), 100), "a.jpg: Not a JPEG file"));
  CHECK(contains(refused("a.bmp", bmp(), 77), "a.bmp: BMP ends early"));
  CHECK(contains(refused("a.bmp", bmp(), 20), "a.bmp: BMP ends early"));
  CHECK(contains(refused("a.tif", tiff(), 100), "a.tif: is no TIFF file: "));
  Bytes far = tiff();
  far[22 + 12 * 5 + 8] = 200;  // the strip's place
  CHECK(contains(refused("a.tif", far, far.size()), "a.tif: TIFF ends early"));
}

TEST_CASE("image_folder numbers the classes by name and splits all images once") {
  TemporaryFolder folder;
  for (const char* name :
       {"b/1.jpg", "b/deep/2.png", "a/3.jpg", "a/4.bmp", "c/5.nii.gz", "c/6.tif"})
    folder.write(name, {});
  folder.write("a/notes.txt", {});
  folder.write("a/.hidden.jpg", {});
  folder.write(".cache/7.jpg", {});
  folder.write("readme.md", {});
  const Json root = {{"root", folder.path.string()}};
  Driver source("image_folder", root);
  CHECK(source.node().epoch_size() == 6);
  const Sample first = source.fire({}, at_index(0)).samples().at(0);
  CHECK(first.name == "a/3");
  CHECK(first.at("image").geometry().path == (folder.path / "a/3.jpg").string());
  CHECK(first.tensor("label").item<int>() == 0);
  CHECK(source.fire({}, at_index(2)).samples().at(0).name == "b/1");
  CHECK(source.fire({}, at_index(3)).samples().at(0).name == "b/2");
  CHECK(source.fire({}, at_index(5)).samples().at(0).tensor("label").item<int>() == 2);

  std::multiset<std::string> seen;
  for (const char* split : {"training", "validation"}) {
    Json params = root;
    params.update({{"split", split}, {"val_frac", 0.34}, {"seed", 5}, {"shuffle", true}});
    Driver part("image_folder", params);
    const auto n = part.node().epoch_size().value();
    CHECK(n == (split == std::string("training") ? 4 : 2));
    for (std::uint64_t i = 0; i < n; ++i)
      seen.insert(part.fire({}, at_index(i)).samples().at(0).name);
  }
  CHECK(seen == std::multiset<std::string>{"a/3", "a/4", "b/1", "b/2", "c/5", "c/6"});
}

TEST_CASE("image_folder goes through links, ends at loops, and leaves out what is hidden") {
  TemporaryFolder folder;
  for (const char* name : {"set/a/1.jpg", "set/b/2.jpg", "far/3.jpg", "far/deep/4.jpg",
                           "set/a/.ipynb_checkpoints/1-checkpoint.jpg"})
    folder.write(name, {});
  std::filesystem::create_directory_symlink("../../far", folder / "set/a/far");
  std::filesystem::create_directory_symlink("../a", folder / "set/b/a");
  std::filesystem::create_directory_symlink("../b", folder / "set/a/b");
  std::filesystem::create_directory_symlink("..", folder / "set/a/up");
  Driver source("image_folder", {{"root", (folder / "set").string()}});
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < source.node().epoch_size().value(); ++i)
    names.push_back(source.fire({}, at_index(i)).samples().at(0).name);
  CHECK(names == std::vector<std::string>{"a/1", "a/2", "a/3", "a/4", "b/2", "b/1", "b/3", "b/4"});
}

TEST_CASE("a folder that holds no classes is refused in words") {
  TemporaryFolder folder;
  const auto refused = [&] {
    return message_of([&] { Driver("image_folder", {{"root", folder.path.string()}}); });
  };
  CHECK(refused().ends_with("has no folders; needed is one for each of two classes or more"));
  folder.write("a/1.jpg", {});
  CHECK(refused().ends_with("has only one folder; needed is one for each of two classes or more"));
  folder.write("b/notes.txt", {});
  CHECK(refused().ends_with("b: no image in the folder of a class"));
}
