// Sources, load_image, save_image and write_datalist, each driven alone, and one conversion of a
// small data set through all of them. PNG, NRRD and MetaImage files are made byte by byte.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <libdeflate.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "engine/base/error.h"
#include "engine/base/file_owners.h"
#include "engine/state/checkpoint.h"
#include "kernels/files/gzip.h"
#include "kernels/files/nifti.h"
#include "kernels/files/npy.h"
#include "tests/gzipped.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"
#include "tests/zlib_bytes.h"

using namespace sluice;

namespace {

// The records of one epoch and their item numbers.
std::pair<std::vector<std::string>, std::vector<std::uint64_t>> epoch(Driver& source,
                                                                      std::uint32_t number = 0) {
  std::pair<std::vector<std::string>, std::vector<std::uint64_t>> seen;
  for (std::uint64_t i = 0;; ++i) {
    const Fired fired = source.fire({}, at_index(i, number));
    if (fired.ended) return seen;
    seen.first.push_back(fired.outs.at(0).sample->name);
    seen.second.push_back(fired.outs.at(0).item);
  }
}

Sample record(const std::vector<std::pair<std::string, std::filesystem::path>>& files) {
  Sample sample;
  sample.name = "case_1";
  for (const auto& [key, path] : files) {
    auto meta = std::make_shared<Meta>();
    meta->path = path.string();
    sample.set(key, Field(at::Tensor(), std::move(meta)));
  }
  return sample;
}

std::string refusal(const std::filesystem::path& path, Json params = Json::object()) {
  params["keys"] = "image";
  return message_of([&] { drive("load_image", params, {record({{"image", path}})}); });
}

Sample loaded(const std::filesystem::path& path) {
  return drive("load_image", {{"keys", "image"}}, {record({{"image", path}})}).at(0);
}

const Matrix4 some_affine{-1, 0, 0, 5, 0, 2, 0, -6, 0, 0, 3, 7, 0, 0, 0, 1};

// 3 x 2 x 2 voxels of int16, counting from 0, X fastest.
Bytes counting_voxels() {
  Bytes bytes(24);
  for (std::int16_t i = 0; i < 12; ++i) std::memcpy(&bytes[2 * std::size_t(i)], &i, 2);
  return bytes;
}

at::Tensor counting_tensor() {
  return at::arange(12, at::kFloat).view({2, 2, 3}).permute({2, 1, 0}).unsqueeze(0);
}

Bytes operator+(const std::string& head, const Bytes& tail) {
  Bytes all(head.begin(), head.end());
  all.insert(all.end(), tail.begin(), tail.end());
  return all;
}

Bytes nrrd(const std::string& encoding = "raw", const std::string& sizes = "3 2 2") {
  const Bytes voxels = counting_voxels();
  return "NRRD0004\n# made by a test\ntype: short\ndimension: 3\nspace: left-posterior-superior\n"
         "sizes: " +
         sizes +
         "\nspace directions: (1,0,0) (0,2,0) (0,0,3)\nkinds: domain domain domain\n"
         "endian: little\nencoding: " +
         encoding + "\nspace origin: (10,20,30)\n\n" +
         (encoding == "raw" ? voxels : gzipped(voxels));
}

Bytes mha(bool compressed = false, const std::string& dim_size = "DimSize = 3 2 2") {
  const Bytes data = compressed ? zlib_bytes(counting_voxels()) : counting_voxels();
  return "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
         "CompressedData = " +
         std::string(compressed ? "True" : "False") +
         (compressed ? "\nCompressedDataSize = " + std::to_string(data.size()) : "") +
         "\nTransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 10 20 30\nElementSpacing = 1 2 3\n" +
         dim_size + "\nElementType = MET_SHORT\nElementDataFile = LOCAL\n" + data;
}

void chunk(Bytes& png, const std::string& type, const Bytes& body) {
  const auto put = [&](std::uint32_t n) {
    for (int shift = 24; shift >= 0; shift -= 8) png.push_back(std::uint8_t(n >> shift));
  };
  put(std::uint32_t(body.size()));
  const Bytes named = type + body;
  png.insert(png.end(), named.begin(), named.end());
  put(libdeflate_crc32(0, named.data(), named.size()));
}

// 3 wide, 2 high; grey (colour type 0) or RGB (2).
Bytes png(std::uint8_t colour) {
  const std::size_t samples = colour == 2 ? 3 : 1;
  Bytes out{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, rows;
  chunk(out, "IHDR", {0, 0, 0, 3, 0, 0, 0, 2, 8, colour, 0, 0, 0});
  for (std::uint8_t y = 0, n = 0; y < 2; ++y) {
    rows.push_back(0);
    for (std::size_t x = 0; x < 3 * samples; ++x) rows.push_back(n++);
  }
  chunk(out, "IDAT", zlib_bytes(rows));
  chunk(out, "IEND", {});
  return out;
}

// Cuts and flips a file everywhere; a mutant is refused or reads as the whole file does.
void check_damage(const TemporaryFolder& folder, const std::string& name, const Bytes& good,
                  bool flips) {
  CAPTURE(name);
  const Sample whole = loaded(folder.write(name, good));
  int accepted_cuts = 0, silent = 0;
  for (std::size_t n = 0; n < good.size(); ++n) {
    const auto cut = folder.write(name, Bytes(good.begin(), good.begin() + long(n)));
    accepted_cuts += refusal(cut).empty();
  }
  for (std::size_t bit = 0; flips && bit < 8 * good.size(); bit += 3) {
    Bytes bad = good;
    bad[bit / 8] ^= std::uint8_t(1u << (bit % 8));
    try {
      silent += !loaded(folder.write(name, bad)).tensor("image").equal(whole.tensor("image"));
    } catch (const DataError&) {
    }
  }
  CHECK(accepted_cuts == 0);
  CHECK(silent == 0);
}

std::string dataset_json(const std::string& lists) { return "{\"name\": \"x\", " + lists + "}"; }

}  // namespace

TEST_CASE("decathlon emits the list of its split in the file's order") {
  TemporaryFolder folder;
  folder.write_text("dataset.json", dataset_json(R"(
    "training": [{"fold": 0, "image": "./imagesTr/a_1.nii.gz", "label": "./labelsTr/a_1.nii.gz"},
                 {"image": "./imagesTr/a_2.nii.gz", "label": "./labelsTr/a_2.nii.gz"}],
    "test": ["./imagesTs/t.nii.gz"])"));
  Driver source("decathlon", {{"root", folder.path.string()}});
  const Sample first = *source.fire({}).outs.at(0).sample;
  CHECK(first.at("image").geometry().path == (folder / "imagesTr/a_1.nii.gz").string());
  CHECK(first.at("label").geometry().path == (folder / "labelsTr/a_1.nii.gz").string());
  CHECK_FALSE(first.tensor("image").defined());
  CHECK_FALSE(first.has("fold"));
  CHECK(epoch(source).first == std::vector<std::string>{"a_1", "a_2"});
  CHECK(source.node().epoch_size() == 2);
  Driver test("decathlon", {{"root", folder.path.string()}, {"split", "test"}});
  CHECK(epoch(test).first == std::vector<std::string>{"t"});
  Driver one("decathlon", {{"root", folder.path.string()}, {"limit", 1}});
  CHECK(epoch(one).first == std::vector<std::string>{"a_1"});
}

TEST_CASE("decathlon holds out MONAI's validation items where the file has none") {
  TemporaryFolder folder;
  std::string items;
  for (int i = 0; i < 41; ++i)
    items += (i ? ", " : "") + std::string("{\"image\": \"") + std::to_string(i) + ".nii\"}";
  folder.write_text("dataset.json", dataset_json("\"training\": [" + items + "]"));
  const auto list = [&](const std::string& split) {
    Driver source("decathlon",
                  {{"root", folder.path.string()}, {"split", split}, {"val_frac", 0.2}});
    return epoch(source).first;
  };
  CHECK(list("validation") ==
        std::vector<std::string>{"25", "35", "29", "4", "10", "31", "27", "11"});
  CHECK(list("training").size() == 33);
}

TEST_CASE("A shuffled source gives every item once, in another order each epoch") {
  TemporaryFolder folder;
  for (int i = 0; i < 20; ++i)
    folder.write_text(std::string("f").append(std::to_string(i)).append(".nii.gz"), "x");
  folder.write_text("other.txt", "x");
  const Json params{{"root", folder.path.string()}, {"pattern", "*.nii.gz"}, {"shuffle", true}};
  Driver source("file_list", params);
  const auto first = epoch(source, 0), second = epoch(source, 1);
  CHECK(first.first != second.first);
  CHECK(first == epoch(source, 0));
  CHECK(std::set(first.second.begin(), first.second.end()).size() == 20);
  std::vector<std::string> by_item(20);
  for (std::size_t i = 0; i < 20; ++i) by_item[first.second[i]] = first.first[i];
  for (std::size_t i = 0; i < 20; ++i) CHECK(by_item[second.second[i]] == second.first[i]);
}

TEST_CASE("file_list takes items, and repeat gives the same files many names") {
  Driver listed("file_list",
                {{"items", {{{"image", "a/b.nii.gz"}, {"label", "c.nii"}}}}, {"root", "/data"}});
  CHECK(listed.fire({}).samples().at(0).at("label").geometry().path == "/data/c.nii");
  Driver several("file_list", {{"items", {{{"image", {"t1.nii", "t2.nii"}}}}}});
  const Sample both = several.fire({}).samples().at(0);
  CHECK(both.name == "t1");
  CHECK(both.at("image#1").geometry().path == "t2.nii");
  Driver repeat("repeat", {{"files", {{"image", "/x/scan.nii.gz"}}}, {"times", 3}});
  const auto seen = epoch(repeat);
  CHECK(seen.first == std::vector<std::string>{"sample_000", "sample_001", "sample_002"});
  CHECK(seen.second == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(repeat.fire({}).samples().at(0).at("image").geometry().path == "/x/scan.nii.gz");
}

TEST_CASE("a path that was copied and selected is loaded as the first one, with all of its files") {
  TemporaryFolder folder;
  const at::Tensor voxels = at::arange(24, at::kFloat).view({2, 3, 4});
  write_nifti(folder / "t1.nii", voxels, some_affine);
  write_nifti(folder / "t2.nii", voxels + 100, some_affine);
  const Sample in = record(
      {{"image", folder / "t1.nii"}, {"image#1", folder / "t2.nii"}, {"label", folder / "t1.nii"}});
  const Sample twins =
      drive("copy_items", {{"keys", {"image", "label"}}, {"names", {"a", "b"}}}, {in}).at(0);
  CHECK(twins.at("b").geometry().path == (folder / "t1.nii").string());
  CHECK_FALSE(twins.has("b#1"));
  const Sample one = drive("select_items", {{"keys", "a"}}, {twins}).at(0);
  CHECK(one.fields().size() == 2);
  const at::Tensor copy = drive("load_image", {{"keys", "a"}}, {one}).at(0).tensor("a");
  CHECK(at::equal(copy, at::stack({voxels, voxels + 100})));
  CHECK(at::equal(copy, drive("load_image", {{"keys", "image"}}, {in}).at(0).tensor("image")));
}

TEST_CASE("A list that cannot be used says which file and why") {
  TemporaryFolder folder;
  const auto open = [&](const std::string& text, Json more = Json::object()) {
    if (!text.empty()) folder.write_text("dataset.json", text);
    more["root"] = folder.path.string();
    const auto why = message_of([&] { Driver("decathlon", more); });
    CHECK(contains(why, (folder / "dataset.json").string()));
    return why;
  };
  CHECK(contains(open(""), "no such file"));
  CHECK(contains(open("{\"training\": ["), "is not JSON"));
  CHECK(contains(open("[1]"), "is not a JSON object"));
  CHECK(contains(open("{}"), "has no \"training\" list"));
  CHECK(contains(open("{\"training\": {}}"), "is not a list"));
  CHECK(contains(open("{\"training\": []}"), "the list \"training\" is empty"));
  CHECK(contains(open("{\"training\": [{\"image\": 3}]}"), "training[0].image: expected a path"));
  CHECK(contains(open("{\"training\": [{}]}"), "training[0]: names no file"));
  CHECK(contains(open("{\"training\": [{\"fold\": 1}]}"), "training[0]: names no file"));
  CHECK(contains(open("{\"training\": [{\"image\": [\"a\"]}]}"), "which datalist reads"));
  CHECK(contains(open("{\"training\": [\"../x.nii\"]}"), "does not lie under"));
  CHECK(contains(open("{\"training\": [\"/etc/x.nii\"]}"), "does not lie under"));
  CHECK(contains(open("{\"training\": [\"x.nii\"]}", {{"split", "validation"}}), "val_frac"));
  CHECK(contains(open(std::string(100, '[') + std::string(100, ']')), "64 levels"));
  const auto listed = [&](const Json& params) {
    return message_of([&] { Driver("file_list", params); });
  };
  CHECK(
      contains(listed({{"root", folder.path.string()}, {"pattern", "*.nii"}}), "no file matches"));
  CHECK(contains(listed({{"root", "/no/such"}, {"pattern", "*"}}), "/no/such: cannot list"));
  CHECK(contains(listed({{"items", Json::array()}}), "file_list.items: expected a list"));
  CHECK(contains(listed({{"items", {{{"image", Json::array()}}}}}), "items[0].image: expected a"));
  CHECK(contains(listed(Json::object()), "either items or pattern"));
}

TEST_CASE("load_image gives channel-first float32 and the RAS affine") {
  TemporaryFolder folder;
  const at::Tensor data = at::arange(24, at::kFloat).view({2, 3, 4});
  write_nifti(folder / "a.nii.gz", data, some_affine, "int16");
  const auto in = record({{"image", folder / "a.nii.gz"}, {"label", folder / "a.nii.gz"}});
  const Sample out = drive("load_image", {{"dtype", {"float32", "uint8"}}}, {in}).at(0);
  CHECK(out.tensor("image").equal(data.unsqueeze(0)));
  CHECK(out.tensor("label").dtype() == at::kByte);
  CHECK(out.at("image").geometry().affine == some_affine);
  CHECK(out.at("image").geometry().has_affine);
  CHECK(out.at("image").geometry().path == (folder / "a.nii.gz").string());
  CHECK(out.name == "case_1");
}

TEST_CASE("load_image refuses a pair of different geometry and names both files") {
  TemporaryFolder folder;
  write_nifti(folder / "a.nii", at::zeros({2, 3, 4}), some_affine);
  write_nifti(folder / "b.nii", at::zeros({2, 3, 5}), some_affine);
  Matrix4 moved = some_affine;
  moved[3] += 0.01;
  write_nifti(folder / "c.nii", at::zeros({2, 3, 4}), moved);
  const auto why = [&](const std::string& label, Json params = Json::object()) {
    const auto in = record({{"image", folder / "a.nii"}, {"label", folder / label}});
    return message_of([&] { drive("load_image", params, {in}); });
  };
  CHECK(contains(why("b.nii"), "a.nii is 2 x 3 x 4"));
  CHECK(contains(why("b.nii"), "b.nii is 2 x 3 x 5"));
  CHECK(contains(why("c.nii"), "affines differ at [0][3]"));
  CHECK(why("b.nii", {{"check_geometry", false}}) == "");
  CHECK(why("a.nii") == "");
}

TEST_CASE("load_image refuses voxels that are not finite and labels beyond the classes") {
  TemporaryFolder folder;
  at::Tensor data = at::zeros({2, 3, 4});
  data[1][2][3] = NAN;
  data[0][2][1] = -INFINITY;
  write_nifti(folder / "a.nii", data, some_affine);
  CHECK(contains(refusal(folder / "a.nii"),
                 "2 voxels are NaN or infinite, the first is -inf at [0, 0, 2, 1]"));
  CHECK(refusal(folder / "a.nii", {{"check_finite", false}}) == "");
  const Json labels{{"label_keys", "image"}, {"max_label", 2}};
  for (double bad : {3.0, -1.0, 0.5}) {
    at::Tensor label = at::ones({2, 3, 4});
    label[1][0][0] = bad;
    write_nifti(folder / "l.nii.gz", label, some_affine);
    CHECK(contains(refusal(folder / "l.nii.gz", labels),
                   "1 voxels are no label from 0 to 2, the first is " + std::to_string(bad) +
                       " at [0, 1, 0, 0]"));
    CHECK(refusal(folder / "l.nii.gz", {{"max_label", 2}}) == "");
  }
}

TEST_CASE("load_image says what is wrong with a path") {
  TemporaryFolder folder;
  std::ofstream(folder / "a.gif") << "GIF89a";
  CHECK(contains(refusal(folder / "a.gif"),
                 ".nii, .nii.gz, .nrrd, .mha, .png, .jpg, .bmp, .tif and .npy are read"));
  CHECK(contains(refusal(folder / "a.nrrd"), "no such file"));
  CHECK(contains(refusal(""), "has no path to load from"));
  CHECK(contains(message_of([] { drive("load_image", {}, {Sample()}); }), "no field \"image\""));
}

TEST_CASE("NRRD and MetaImage come back with their LPS geometry turned to RAS") {
  TemporaryFolder folder;
  const Matrix4 ras{-1, 0, 0, -10, 0, -2, 0, -20, 0, 0, 3, 30, 0, 0, 0, 1};
  for (const auto& file : {folder.write("a.nrrd", nrrd()), folder.write("b.nrrd", nrrd("gzip")),
                           folder.write("a.mha", mha()), folder.write("b.mha", mha(true))}) {
    CAPTURE(file.string());
    const Sample s = loaded(file);
    CHECK(s.tensor("image").equal(counting_tensor()));
    CHECK(s.tensor("image").is_contiguous());
    CHECK(s.at("image").geometry().affine == ras);
  }
}

TEST_CASE("PNG comes back as [C, X, Y] without geometry") {
  TemporaryFolder folder;
  const Sample grey = loaded(folder.write("g.png", png(0)));
  CHECK(grey.tensor("image").equal(at::arange(6, at::kFloat).view({2, 3}).t().unsqueeze(0)));
  CHECK_FALSE(grey.at("image").geometry().has_affine);
  const Sample rgb = loaded(folder.write("c.png", png(2)));
  CHECK(rgb.tensor("image").equal(at::arange(18, at::kFloat).view({2, 3, 3}).permute({2, 1, 0})));
}

TEST_CASE("pictures become colours or brightness as Pillow converts them") {
  TemporaryFolder folder;
  const auto as = [&](const char* mode, std::uint8_t colour) {
    const Sample picture = record({{"image", folder.write("p.png", png(colour))}});
    return drive("load_image", {{"keys", "image"}, {"picture_mode", mode}}, {picture})[0].tensor(
        "image");
  };
  const at::Tensor grey = at::arange(6, at::kFloat).view({2, 3}).t().unsqueeze(0);
  const at::Tensor rgb = at::arange(18, at::kFloat).view({2, 3, 3}).permute({2, 1, 0});
  CHECK(as("RGB", 0).equal(at::cat({grey, grey, grey})));
  CHECK(as("RGB", 2).equal(rgb));
  CHECK(as("L", 0).equal(grey));
  // PIL.Image.convert("L") of (0, 1, 2), (3, 4, 5), ... is 1, 4, 7, 10, 13, 16.
  CHECK(as("L", 2).equal((grey * 3 + 1)));
}

TEST_CASE("arrays of NumPy load as one channel, or with the axis that has the channels") {
  TemporaryFolder folder;
  const at::Tensor array = at::arange(24, at::kInt).view({2, 4, 3});
  const auto file = folder.path / "a.npy";
  write_npy(file, array);
  const Sample plain = loaded(file);
  CHECK(plain.tensor("image").equal(array.to(at::kFloat).unsqueeze(0)));
  CHECK_FALSE(plain.at("image").geometry().has_affine);
  const auto as = [&](const Json& params) {
    Json all = {{"keys", "image"}};
    all.update(params);
    return drive("load_image", all, {record({{"image", file}})})[0].tensor("image");
  };
  CHECK(as({{"channel_dim", -1}, {"dtype", "int32"}}).equal(array.permute({2, 0, 1})));
  CHECK_THROWS_WITH_AS(as({{"channel_dim", 3}}),
                       doctest::Contains("has 3 axes; there is no axis 3"), DataError);
  write_npy(file, array.to(at::kFloat) / 2);
  CHECK_THROWS_WITH_AS(as({{"dtype", "uint8"}}),
                       doctest::Contains("holds values that are no uint8"), DataError);
}

TEST_CASE("No cut or compressed-data damage of NRRD, MetaImage and PNG passes unseen") {
  TemporaryFolder folder;
  check_damage(folder, "raw.nrrd", nrrd(), false);
  check_damage(folder, "raw.mha", mha(), false);
  check_damage(folder, "grey.png", png(0), true);
  check_damage(folder, "colour.png", png(2), true);
  // Headers have no checksum, so only the data's bits are flipped below.
  for (const auto& [name, good, data] :
       {std::tuple{"z.nrrd", nrrd("gzip"), gzipped(counting_voxels()).size()},
        std::tuple{"z.mha", mha(true), zlib_bytes(counting_voxels()).size()}}) {
    check_damage(folder, name, good, false);
    const Sample whole = loaded(folder.write(name, good));
    int silent = 0;
    for (std::size_t bit = 8 * (good.size() - data); bit < 8 * good.size(); ++bit) {
      Bytes bad = good;
      bad[bit / 8] ^= std::uint8_t(1u << (bit % 8));
      try {
        silent += !loaded(folder.write(name, bad)).tensor("image").equal(whole.tensor("image"));
      } catch (const DataError&) {
      }
    }
    CHECK(silent == 0);
  }
}

TEST_CASE("A header that would mislead ITK is refused") {
  TemporaryFolder folder;
  const auto bad_mha = [&](const std::string& dim) {
    return refusal(folder.write("a.mha", mha(false, dim)));
  };
  CHECK(contains(bad_mha("DimSize = 3 2 2 2"), "\"DimSize\" cannot be 3 2 2 2"));
  CHECK(contains(bad_mha("DimSizf = 3 2 2"), "not read: \"DimSizf\""));
  CHECK(bad_mha("DimSize = 3 2 2\nqform_code = 1").empty());  // of ITK's users
  CHECK(contains(bad_mha("DimSize = 3 2 x"), "cannot be 3 2 x"));
  CHECK(contains(bad_mha("DimSize = 3 2 3"), "expected 36 bytes of voxels, got 24"));
  CHECK(contains(bad_mha("DimSize = 3000000000 3000000000 3000000000"), "declares more than"));
  CHECK(contains(bad_mha("DimSize = 3 2 2\nDimSize = 3 2 2"), "two fields"));
  CHECK(contains(refusal(folder.write("a.nrrd", nrrd("raw", "3 2 1"))), "is too long"));
  CHECK(contains(refusal(folder.write("a.nrrd", nrrd("raw", "3 -2 2"))), "cannot be 3 -2 2"));
  CHECK(contains(refusal(folder.write("a.nrrd", nrrd("bzip2"))), "cannot be bzip2"));
}

TEST_CASE("save_image writes MONAI's names and passes the new path on") {
  TemporaryFolder folder;
  Sample in = sample_of("pred", at::arange(24, at::kFloat).view({1, 2, 3, 4}), some_affine);
  OpenContext context;
  context.out_dir = folder.path;
  const Json params{{"keys", "pred"},
                    {"output_dir", "out"},
                    {"output_postfix", "seg"},
                    {"output_dtype", "uint8"}};
  const Sample out = Driver("save_image", params, context).fire({in}).samples().at(0);
  const auto path = folder / "out/case/case_seg.nii.gz";
  CHECK(out.at("pred").geometry().path == path.string());
  const Volume v = read_nifti(path);
  CHECK(v.data.equal(in.tensor("pred")));
  CHECK(v.affine == some_affine);
  CHECK(v.disk_dtype == "uint8");
  const Json flat{{"keys", "pred"},
                  {"output_dir", folder.path.string()},
                  {"output_ext", ".nii"},
                  {"output_postfix", ""},
                  {"separate_folder", false}};
  drive("save_image", flat, {in});
  CHECK(std::filesystem::exists(folder / "case.nii"));
  Json meta_image = flat;
  meta_image["output_ext"] = ".mha";
  drive("save_image", meta_image, {in});
  const Volume mha = read_volume(folder / "case.mha");
  CHECK(mha.data.equal(in.tensor("pred")));
  CHECK(mha.affine == some_affine);
  CHECK_THROWS_AS(Driver("save_image", {{"keys", {"a", "b"}}}), Error);
  in.name = "../case";
  CHECK(contains(message_of([&] { drive("save_image", flat, {in}); }), "cannot be the name"));
}

TEST_CASE("save_image writes no picture of an image without pixels, and says of which field") {
  TemporaryFolder folder;
  const Json params{
      {"keys", "image"}, {"output_dir", folder.path.string()}, {"output_ext", ".png"}};
  const std::string why = message_of([&] {
    drive("save_image", params, {sample_of("image", at::zeros({1, 0, 5}))});
  });
  CHECK(contains(why, "field \"image\" is empty, [1, 0, 5]: a picture has at least one pixel"));
}

TEST_CASE("two nodes of a run do not write one file") {
  TemporaryFolder folder;
  OpenContext first, second;
  first.out_dir = second.out_dir = folder.path;
  first.owners = second.owners = std::make_shared<FileOwners>();
  first.node = "images";
  second.node = "answers";
  const Sample in = sample_of("pred", at::ones({1, 2, 2, 2}));
  const Json params{{"keys", "pred"}, {"output_dir", "a/../b"}};
  Driver images("save_image", params, first);
  images.fire({in}, at_index(0));
  images.fire({in}, at_index(0, 1));
  Driver answers("save_image", {{"keys", "pred"}, {"output_dir", "b"}}, second);
  CHECK(contains(message_of([&] { answers.fire({in}, at_index(0)); }),
                 "case_trans.nii.gz is written by nodes.images and by nodes.answers"));
  Driver list("write_datalist", {{"keys", "pred"}, {"output", "l.json"}}, first);
  CHECK(contains(message_of([&] {
                   Driver("write_datalist", {{"keys", "pred"}, {"output", "l.json"}}, second);
                 }),
                 "l.json is written by nodes.images and by nodes.answers"));
  // Nor do two that add to it: each reads the file, and writes it with its own lines.
  Driver lines("save_classification", {{"overwrite", false}}, first);
  CHECK(contains(message_of([&] {
                   Driver("save_classification", {{"overwrite", false}}, second);
                 }),
                 "predictions.csv is written by nodes.images and by nodes.answers"));
  Driver mapping("write_file_mapping", Json::object(), first);
  CHECK(contains(message_of([&] { Driver("write_file_mapping", Json::object(), second); }),
                 "mapping.json is written by nodes.images and by nodes.answers"));
}

TEST_CASE("a checkpoint's save_image knows what other processes have written, too") {
  TemporaryFolder folder;
  const Json params{{"keys", "pred"}, {"output_dir", folder.path.string()}};
  const auto named = [](const char* name) {
    Sample s = sample_of("pred", at::ones({1, 2, 2, 2}));
    s.name = name;
    return s;
  };
  Driver first("save_image", params), second("save_image", params);
  first.fire({named("a")}, at_index(0));
  second.fire({named("b")}, at_index(1));
  State of_second, both, again;
  second.node().save(of_second);
  first.node().merge(of_second);
  first.node().save(both);
  first.node().merge(of_second);
  first.node().save(again);
  CHECK(at::equal(both.tensors.at("written"), again.tensors.at("written")));
  Driver resumed("save_image", params);
  resumed.node().load(both);
  for (const char* name : {"a", "b"}) {
    Sample other = named(name);
    auto meta = std::make_shared<Meta>(other.at("pred").geometry());
    meta->path = "/d/2/image.nii.gz";
    other.set("pred", Field(other.tensor("pred"), std::move(meta)));
    CHECK(contains(message_of([&] { resumed.fire({other}, at_index(5)); }),
                   "is the file of two samples"));
  }
}

TEST_CASE("save_image refuses a file that another sample of the epoch has written") {
  TemporaryFolder folder;
  const auto made_of = [&](const char* file) {
    Sample s = sample_of("pred", at::ones({1, 2, 2, 2}));
    auto meta = std::make_shared<Meta>(s.at("pred").geometry());
    meta->path = file;
    s.set("pred", Field(s.tensor("pred"), std::move(meta)));
    return s;
  };
  const Json params{{"keys", "pred"}, {"output_dir", folder.path.string()}};
  Driver save("save_image", params);
  save.fire({made_of("/d/1/image.nii.gz")}, at_index(0));
  CHECK(contains(
      message_of([&] { save.fire({made_of("/d/2/image.nii.gz")}, at_index(1)); }),
      "case_trans.nii.gz is the file of two samples, \"case\" of /d/1/image.nii.gz and \"case\" of "
      "/d/2/image.nii.gz; name_by"));
  State state;
  save.node().save(state);
  save.fire({made_of("/d/2/image.nii.gz")}, at_index(1, 1));  // the next epoch's
  // A run that goes on within the epoch knows them too; what it repeats is the same sample.
  Driver resumed("save_image", params);
  resumed.node().load(state);
  CHECK(contains(
      message_of([&] { resumed.fire({made_of("/d/2/image.nii.gz")}, at_index(1)); }),
      "case_trans.nii.gz is the file of two samples, \"case\" of /d/1/image.nii.gz and \"case\" of "
      "/d/2/image.nii.gz"));
  resumed.fire({made_of("/d/1/image.nii.gz")}, at_index(0));
  // With --force even where the order is another.
  Driver reordered("save_image", params);
  reordered.node().load(state);
  reordered.fire({made_of("/d/1/image.nii.gz")}, at_index(5));
  resumed.fire({made_of("/d/2/image.nii.gz")}, at_index(1, 1));
  // Epochs that are over are not kept, and of names that are no UTF-8 and of their number
  // state.json knows nothing.
  Sample other = made_of("/d/3/image.nii.gz");
  other.name = "\xff other";
  save.fire({other}, at_index(0, 2));
  State later;
  save.node().save(later);
  CHECK(later.values.empty());
  const at::Tensor& kept = later.tensors.at("written");
  const std::string names(reinterpret_cast<const char*>(kept.const_data_ptr()),
                          static_cast<std::size_t>(kept.numel()));
  CHECK(contains(names, "other_trans.nii.gz"));
  CHECK_FALSE(contains(names, "case_trans.nii.gz"));
  Json apart = params;
  apart.update({{"name_by", "file"}, {"data_root_dir", "/d/"}});
  Driver by_file("save_image", apart);
  by_file.fire({made_of("/d/1/image.nii.gz")}, at_index(0));
  by_file.fire({made_of("/d/2/image.nii.gz")}, at_index(1));
  CHECK(std::filesystem::exists(folder / "2/image/image_trans.nii.gz"));
}

TEST_CASE("A data set that was written is a decathlon again") {
  TemporaryFolder folder;
  OpenContext context;
  context.out_dir = folder.path;
  Driver list("write_datalist",
              {{"output", "dataset.json"},
               {"keys", "image"},
               {"validation", 1},
               {"labels", {{"0", "background"}}}},
              context);
  const Json params{{"output_dir", "imagesTr"}, {"output_postfix", ""}, {"separate_folder", false}};
  for (int i = 0; i < 3; ++i) {
    Sample in = sample_of("image", at::full({1, 2, 2, 2}, float(i)));
    in.name = "n" + std::to_string(i);
    list.fire({Driver("save_image", params, context).fire({in}).samples().at(0)}, at_index(i));
  }
  list.flush();
  Driver training("decathlon", {{"root", folder.path.string()}});
  CHECK(epoch(training).first == std::vector<std::string>{"n0", "n1"});
  Driver held("decathlon", {{"root", folder.path.string()}, {"split", "validation"}});
  const Sample last = drive("load_image", {{"keys", "image"}}, held.fire({}).samples()).at(0);
  CHECK(last.tensor("image").equal(at::full({1, 2, 2, 2}, 2.0f)));
  Driver outside("write_datalist", {{"output", "x/dataset.json"}, {"keys", "image"}}, context);
  CHECK(contains(message_of([&] { outside.fire({last}); }), "does not lie under"));
  Sample two = last;
  two.set("image", Field(at::Tensor(), {two.at("image").meta[0], two.at("image").meta[0]}));
  CHECK(contains(message_of([&] { list.fire({two}); }), "is a batch; decollate it"));
}

TEST_CASE("The real hippocampus set loads whole, with its labels and geometry checked") {
  const char* root = std::getenv("SLUICE_TEST_DATA");
  if (!root) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  Driver source("decathlon", {{"root", std::string(root) + "/Task04_Hippocampus"}, {"limit", 20}});
  Driver load("load_image", {{"max_label", 2}, {"dtype", {"float32", "uint8"}}});
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Sample s = load.fire(source.fire({}, at_index(i)).samples()).samples().at(0);
    CHECK(s.tensor("image").sizes() == s.tensor("label").sizes());
    CHECK(s.tensor("label").max().item<int>() == 2);
  }
}
