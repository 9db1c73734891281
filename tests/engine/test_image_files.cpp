// The files that an image is read from.
#include <doctest/doctest.h>

#include "engine/base/image_files.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

std::vector<std::string> names(const std::filesystem::path& path) {
  std::vector<std::string> all;
  for (const auto& file : image_files(path)) all.push_back(file.filename().string());
  return all;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a header's voxels are the file that it names, wherever the line stands") {
  TemporaryFolder folder;
  const auto named = [&](const char* file, const char* text) {
    return names(folder.write_text(file, text));
  };
  CHECK(named("a.mhd", "ObjectType = Image\nElementDataFile = b.raw\n") == Names{"a.mhd", "b.raw"});
  CHECK(named("a.mha", "NDims = 3\nElementDataFile = LOCAL\n\n\1\2") == Names{"a.mha"});
  CHECK(named("A.NHDR", "NRRD0004\r\ndata file: sub/b.raw.gz\r\nencoding: gzip\r\n") ==
        Names{"A.NHDR", "b.raw.gz"});
  CHECK(image_files(folder / "A.NHDR")[1] == folder / "sub/b.raw.gz");
  CHECK(named("a.nrrd", "NRRD0004\ntype: short\n\ndata file: no.header") == Names{"a.nrrd"});
  CHECK(named("b.mhd", "ElementDataFile =\n") == Names{"b.mhd"});
  CHECK(named("c.mhd", "ElementDataFile = LIST\ns2.raw\ns1.raw\n") ==
        Names{"c.mhd", "s2.raw", "s1.raw"});
  CHECK(named("d.mhd", "ElementDataFile = s%03d.raw 8 12 2\n") ==
        Names{"d.mhd", "s008.raw", "s010.raw", "s012.raw"});
  CHECK(names(folder / "missing.mhd") == Names{"missing.mhd"});
}

TEST_CASE("a pair's halves name each other, and a slide's folder goes with it") {
  CHECK(names("a.hdr") == Names{"a.hdr", "a.img"});
  CHECK(names("a.img.gz") == Names{"a.img.gz", "a.hdr.gz"});
  CHECK(names("A.IMG") == Names{"A.IMG", "A.HDR"});
  CHECK(names("slide.mrxs") == Names{"slide.mrxs", "slide"});
  CHECK(names("a.nii.gz") == Names{"a.nii.gz"});
}

TEST_CASE("a pattern of numbered files has one number, and a first, a last and a step") {
  CHECK(numbered_files("a%d.raw 9 10") == Names{"a9.raw", "a10.raw"});
  CHECK(numbered_files("a%2d.raw 9 10 1") == Names{"a 9.raw", "a10.raw"});
  for (const char* wrong :
       {"a.raw 1 2", "a%d.raw", "a%d.raw 1", "a%d.raw 2 1", "a%d.raw -1 2", "a%d.raw 1 2 0",
        "a%s.raw 1 2", "a% 1 2", "a%d%d.raw 1 2", "a%d.raw 1 2 1 1", "a%d.raw 1 2 x",
        "a%999d.raw 1 2", "a%d.raw 0 65536", "a%d.raw 0 9223372036854775807 9223372036854775807"})
    CHECK(numbered_files(wrong).empty());
}
