// The readers beside other people's: NIfTI files of every kind as nibabel reads them (in the test's
// venv), NRRD and MetaImage as SimpleITK does (recorded: tests/golden/make_volumes.py).
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "engine/base/error.h"
#include "kernels/files/meta_image.h"
#include "kernels/files/nifti.h"
#include "kernels/lists/manifest.h"
#include "tests/temporary_folder.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

std::vector<double> doubles_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<double> v(bytes.size() / 8);
  std::memcpy(v.data(), bytes.data(), 8 * v.size());
  return v;
}

// [C, X, Y, Z] in the file's order: X fastest, channels last.
std::vector<double> in_file_order(const at::Tensor& data) {
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < data.dim(); ++d) order.push_back(d == 0 ? 0 : data.dim() - d);
  const at::Tensor flat = data.permute(order).contiguous();
  const double* p = flat.const_data_ptr<double>();
  return {p, p + flat.numel()};
}

bool same(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))) return false;
  return true;
}

}  // namespace

TEST_CASE("NIfTI files with any header are read as nibabel reads them, or refused") {
  TemporaryFolder folder;
  const std::string script = SLUICE_SOURCE_DIR "/tests/kernels/nifti_cases.py";
  const std::string command =
      std::string(SLUICE_PYTHON " ") + script + " " + folder.path.string() + " 1500 11";
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    MESSAGE("skipped: the venv has no nibabel");
    return;
  }
  REQUIRE(status == 0);
  std::ifstream cases(folder / "cases.txt");
  int read = 0, refused_by_both = 0, refused_by_us = 0, read_by_us = 0, other = 0;
  for (std::string line; std::getline(cases, line);) {
    std::istringstream words(line);
    std::string name, shape;
    words >> name >> shape;
    std::vector<double> affine(16);
    for (double& v : affine) words >> v;
    CAPTURE(line);
    try {
      const Volume v = read_nifti(folder / name, at::kDouble);
      if (shape == "refused") {
        ++read_by_us;
        continue;
      }
      ++read;
      const std::vector<double> ours(v.affine.begin(), v.affine.end());
      const bool equal =
          same(ours, affine, 1e-6) &&
          same(in_file_order(v.data),
               doubles_in(folder / (name.substr(0, name.find('.')) + ".bin")), 1e-12);
      CHECK(equal);
      other += !equal;
    } catch (const DataError& e) {
      ++(shape == "refused" ? refused_by_both : refused_by_us);
      const std::string why = e.what();
      // What nibabel reads and we do not: geometry that no transform could use.
      if (shape != "refused")
        CHECK_MESSAGE((contains(why, "affine") || contains(why, "scl_inter")), why);
    }
  }
  MESSAGE("read alike ", read, ", refused by both ", refused_by_both, ", by us alone ",
          refused_by_us, ", by nibabel alone ", read_by_us);
  CHECK(read > 700);
  CHECK(refused_by_both > 100);
  CHECK(other == 0);
  CHECK(read_by_us == 0);
}

TEST_CASE("NRRD and MetaImage of every kind are read as ITK reads them") {
  const fs::path folder = SLUICE_SOURCE_DIR "/tests/golden/volumes";
  std::ifstream in(folder / "volumes.json");
  const auto golden = nlohmann::json::parse(in);
  CHECK(golden.size() >= 35);
  for (const auto& [name, expected] : golden.items()) {
    CAPTURE(name);
    const Volume v = read_volume(folder / name, at::kDouble);
    CHECK(v.data.sizes().vec() == expected.at("shape").get<std::vector<std::int64_t>>());
    const auto affine = expected.at("affine").get<std::vector<double>>();
    CHECK(same({v.affine.begin(), v.affine.end()}, affine, 1e-12));
    const at::Tensor voxels =
        at::tensor(expected.at("voxels").get<std::vector<double>>(), at::kDouble);
    CHECK(v.data.flatten().equal(voxels));
  }
}

TEST_CASE(
    "NRRD voxels as text, and axes and limits that no volume has, are refused with the reason") {
  const TemporaryFolder folder;
  const auto why = [&](const std::string& fields, const std::string& voxels) {
    const auto file = folder.write_text(
        "a.nrrd", "NRRD0004\ntype: uchar\ndimension: 2\nsizes: 2 2\n" + fields + "\n" + voxels);
    return message_of([&] { read_volume(file); });
  };
  CHECK(why("encoding: text\n", "1 2\n3, +4\n") == "");
  CHECK(contains(why("encoding: text\n", "1 2\n3\n"), "ends early (expected 4 numbers, got 3)"));
  CHECK(contains(why("encoding: text\n", "1 2 3 4 5"), "is too long (expected 4 numbers)"));
  CHECK(contains(why("encoding: text\n", "1 2 3 256"),
                 "number 4 of its voxels is \"256\", which is no uint8"));
  CHECK(contains(why("encoding: ascii\n", "1 2 x 4"), "number 3 of its voxels is \"x\""));
  CHECK(why("encoding: hex\n", "00 fF\n10 2a\n") == "");
  CHECK(contains(why("encoding: hex\n", "00ff102"), "ends early (expected 4 bytes"));
  CHECK(contains(why("encoding: hex\n", "00ff10  2"), "got 7 digits"));
  CHECK(contains(why("encoding: hex\n", "00ff102a0"), "is too long (expected 4 bytes"));
  CHECK(contains(why("encoding: hex\n", "00ff10 2g"), "is no hexadecimal digit"));
  CHECK(why("encoding: raw\n", "1234\r\n") == "");
  CHECK(contains(why("encoding: raw\n", "12345"), "is too long"));
  CHECK(contains(why("encoding: raw\nline skip: 1\n", "1234"), "ends before its voxels begin"));
  CHECK(contains(why("encoding: raw\naxis mins: 0 0\n", "1234"),
                 "has \"axis mins\" and neither \"spacings\" nor \"space directions\""));
  CHECK(contains(why("encoding: raw\nspace directions: (1,0,0,0) (0,1,0,0.5)\n", "1234"),
                 "\"space directions\" cannot be"));
}

TEST_CASE("A MetaImage's list or pattern names a file for each step along the last axis") {
  const TemporaryFolder folder;
  for (const char* name : {"s1.raw", "s2.raw"}) folder.write_text(name, "1234");
  const auto why = [&](const std::string& files, const std::string& more = "") {
    const auto file = folder.write_text(
        "a.mhd", "ObjectType = Image\nNDims = 3\nBinaryData = True\nDimSize = 2 2 2\n" + more +
                     "ElementType = MET_UCHAR\nElementDataFile = " + files + "\n");
    return message_of([&] { read_volume(file); });
  };
  CHECK(why("LIST\ns1.raw\ns2.raw") == "");
  CHECK(why("LIST 2D\ns1.raw\ns2.raw") == "");
  CHECK(why("s%d.raw 1 2") == "");
  CHECK(contains(why("LIST\ns1.raw"), "names 1 files of voxels by \"LIST\", the last axis has 2"));
  CHECK(contains(why("s%d.raw"), "names 0 files of voxels"));
  CHECK(contains(why("LIST 1D\ns1.raw\ns2.raw"), "cannot be LIST 1D"));
  CHECK(contains(why("s%d.raw 1 3 2"), "s3.raw: no such file"));
  CHECK(contains(why("LIST\n../s1.raw\ns2.raw"), "which is not beside it"));
  CHECK(contains(why("s%d.raw 1 2", "CompressedData = True\n"), "files that are compressed"));
  CHECK(contains(why("s%d.raw 1 2", "HeaderSize = 1\n"), "expected 4 bytes of voxels, got 3"));
}

// SimpleITK 2.5.7 reads these with origin (-10, 20, 30.5), spacing (1.5, 2, 3), that direction, and
// (0, 12), (4, 16), (8, 20), (2, 14) as the first pixels.
TEST_CASE("A MetaImage is written as ITK reads it, and comes back") {
  const TemporaryFolder folder;
  const at::Tensor data = at::arange(24, at::kFloat).view({2, 3, 2, 2});
  const Matrix4 affine{0, -2, 0, 10, 1.5, 0, 0, -20, 0, 0, 3, 30.5, 0, 0, 0, 1};
  write_meta_image(folder / "a/plain.mha", data, affine, "int16", 0);
  const Bytes bytes = bytes_of(folder / "a/plain.mha");
  const std::string head =
      "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
      "CompressedData = False\nTransformMatrix = 0 -1 0 1 0 0 0 0 1\nOffset = -10 20 30.5\n"
      "CenterOfRotation = 0 0 0\nElementSpacing = 1.5 2 3\nElementNumberOfChannels = 2\n"
      "DimSize = 3 2 2\nElementType = MET_SHORT\nElementDataFile = LOCAL\n";
  REQUIRE(bytes.size() == head.size() + 48);
  CHECK(std::string(bytes.begin(), bytes.begin() + long(head.size())) == head);
  const std::vector<std::uint8_t> first{0, 0, 12, 0, 4, 0, 16, 0, 8, 0, 20, 0, 2, 0, 14, 0};
  CHECK(std::equal(first.begin(), first.end(), bytes.begin() + long(head.size())));
  write_meta_image(folder / "packed.mha", data[0], affine, "float32", 6);
  for (const auto& [name, expected] :
       {std::pair{"a/plain.mha", data}, std::pair{"packed.mha", data.narrow(0, 0, 1)}}) {
    const Volume v = read_volume(folder / name);
    CHECK(v.data.equal(expected));
    CHECK(v.affine == affine);
  }
  CHECK(contains(message_of([&] { write_meta_image(folder / "b.mha", data, affine, "int8x"); }),
                 "int8x"));
  CHECK_THROWS_AS(write_meta_image(folder / "b.mha", data - 1, affine, "uint8"), DataError);
}

TEST_CASE("A manifest lists digests that sha256sum has too, and refuses to be cut or edited") {
  TemporaryFolder folder;
  folder.write_text("a.txt", "abc");
  folder.write_text("sub/b\nc\\d.txt", "");
  Manifest manifest(folder.path);
  for (const char* name : {"a.txt", "sub/b\nc\\d.txt"})
    manifest.digests[name] = sha256_of_file(folder / name);
  CHECK(manifest.digests.at("a.txt") ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");  // FIPS 180-2
  const fs::path file = folder / "manifest.sha256";
  manifest.write(file);
  CHECK(std::system(
            ("cd " + folder.path.string() + " && sha256sum --status -c manifest.sha256").c_str()) ==
        0);
  CHECK(Manifest::read(file).digests == manifest.digests);
  CHECK(Manifest::read(file).read_listed(folder / "a.txt").size() == 3);
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t n = 0; n < text.size(); ++n) {
    folder.write_text("cut", text.substr(0, n));
    CHECK_THROWS_AS(Manifest::read(folder / "cut"), DataError);
    std::string edited = text;
    edited[n] = static_cast<char>(edited[n] ^ 1);
    folder.write_text("cut", edited);
    CHECK_THROWS_AS(Manifest::read(folder / "cut"), DataError);
  }
  folder.write_text("a.txt", "abd");
  const auto why = [&](const char* name) {
    return message_of([&] { Manifest::read(file).read_listed(folder / name); });
  };
  CHECK(contains(why("a.txt"), "is not the file that was indexed"));
  folder.write_text("new.txt", "abd");
  CHECK(contains(why("new.txt"), "is not listed"));
}
