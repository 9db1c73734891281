// DICOM series, written here element by element, and a real one as SimpleITK 2.5.7 reads it.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <libdeflate.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/base/error.h"
#include "kernels/files/volume.h"
#include "kernels/lists/manifest.h"
#include "tests/dicom_series.h"
#include "tests/temporary_folder.h"

using namespace sluice;
namespace fs = std::filesystem;
using dicom_series::Slice;

namespace {

struct Series : dicom_series::Series {
  using dicom_series::Series::Series;
  Volume read() const { return read_volume(folder / "s", at::kDouble); }
  std::string why() const {
    return message_of([&] { read(); });
  }
};

}  // namespace

TEST_CASE("A DICOM series is a volume: slices by their places, geometry turned to RAS") {
  const Series series;
  const Volume v = series.read();
  REQUIRE(v.data.sizes() == at::IntArrayRef({1, 5, 4, 4}));
  for (int z = 0; z < 4; ++z)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 5; ++x)
        CHECK(v.data[0][x][y][z].item<double>() == x + 10 * y + 100 * z - 50);
  // PixelSpacing is between rows first: columns are 1.5 mm apart, rows 2 mm.
  CHECK(v.affine == Matrix4{-1.5, 0, 0, -10, 0, -2, 0, 20, 0, 0, 3, 0, 0, 0, 0, 1});
  CHECK(v.disk_dtype == "int16");
  CHECK(v.has_affine);
}

TEST_CASE("A rescale of a slice's own is applied, an oblique series keeps its axes") {
  Series series(0);
  for (int i = 0; i < 3; ++i)
    series.write({.number = i,
                  .position = std::to_string(2 * i) + "\\5\\6",
                  .orientation = "0\\1\\0\\0\\0\\1",
                  .slope = i == 1 ? "0.5" : "2",
                  .intercept = "-1000"});
  const Volume v = series.read();
  CHECK(v.affine == Matrix4{0, 0, -2, 0, -1.5, 0, 0, -5, 0, 2, 0, 6, 0, 0, 0, 1});
  CHECK(v.data[0][1][2][0].item<double>() == 2 * (1 + 20 - 50) - 1000);
  CHECK(v.data[0][1][2][1].item<double>() == 0.5 * (1 + 20 + 100 - 50) - 1000);
}

TEST_CASE("A DICOM file alone is a volume, whatever its name") {
  const Series series(0);
  const Bytes slice = dicom_series::dicom({.number = 2, .slope = "2", .intercept = "-5"});
  series.folder.write("s/only", slice);
  const Volume in_folder = series.read();
  for (const char* name : {"x/chest.dcm", "x/IM0001"}) {
    const Volume v = read_volume(series.folder.write(name, slice), at::kDouble);
    CHECK(v.data.equal(in_folder.data));
    CHECK(v.data.sizes() == at::IntArrayRef({1, 5, 4, 1}));
    CHECK(v.data[0][1][2][0].item<double>() == 2 * (1 + 20 + 200 - 50) - 5);
    CHECK(v.affine == in_folder.affine);
  }
  for (const char* name : {"gone.dcm", "gone"})
    CHECK(contains(message_of([&] { read_volume(series.folder / name); }), "no such file"));
}

TEST_CASE("A DICOM file of several frames, alone, is a volume with the frames' geometry") {
  const auto read = [](const std::vector<Slice::Frame>& frames) {
    Series s(0);
    s.write({.intercept = "-5", .frames = frames});
    return s.read();
  };
  const Volume up = read({{"1\\2\\3", "2"}, {"1\\2\\7", "2"}, {"1\\2\\11", "2"}});
  REQUIRE(up.data.sizes() == at::IntArrayRef({1, 5, 4, 3}));
  CHECK(up.data[0][1][2][2].item<double>() == 2 * (1 + 20 + 200 - 50) - 5);
  CHECK(up.affine == Matrix4{-1.5, 0, 0, -1, 0, -2, 0, -2, 0, 0, 4, 3, 0, 0, 0, 1});
  CHECK(read({{"1\\2\\7"}, {"1\\2\\3"}}).affine[10] == -4);

  const auto why = [&](const std::vector<Slice::Frame>& frames) {
    return message_of([&] { read(frames); });
  };
  const std::string uneven = why({{"1\\2\\3"}, {"1\\2\\7"}, {"1\\2\\15"}});
  CHECK_MESSAGE(contains(uneven, "does not follow the one before it"), uneven);
  CHECK(
      contains(why({{"1\\2\\3"}, {"1\\2\\11"}, {"1\\2\\7"}}), "does not follow the one before it"));
  CHECK(contains(why({{"1\\2\\3", "2"}, {"1\\2\\7", "3"}}), "frame 2 has another rescale"));
  CHECK(contains(why({{"1\\2\\3"}, {"none"}}), "frame 2 does not say where it lies"));
  Series both(1);
  both.write({.number = 1, .frames = {{"1\\2\\3"}, {"1\\2\\7"}}});
  CHECK(contains(both.why(), both.name(1) + ": holds several slices, and is not the only file"));
}

TEST_CASE("A deflated DICOM file is read, and refused where it is cut") {
  const Bytes plain = dicom_series::dicom({.syntax = "1.2.840.10008.1.2.1.99"});
  const std::size_t front = 144 + plain[140];  // the file's meta information stays as it is
  Bytes file(plain.begin(), plain.begin() + long(front));
  file.resize(plain.size() + 100);
  auto* c = libdeflate_alloc_compressor(6);
  file.resize(front + libdeflate_deflate_compress(c, plain.data() + front, plain.size() - front,
                                                  file.data() + front, file.size() - front));
  libdeflate_free_compressor(c);
  const Series s(1), deflated(0);
  deflated.folder.write("s/one", file);
  const Volume v = deflated.read();
  CHECK(v.data.equal(s.read().data));
  for (std::size_t cut = 1; cut < file.size(); cut += cut < 8 ? 1 : 40) {
    CAPTURE(cut);
    deflated.folder.write("s/one", Bytes(file.begin(), file.end() - long(cut)));
    CHECK(contains(deflated.why(), "s/one"));
  }
}

TEST_CASE("What is wrong with a DICOM series is said with the file's name") {
  {
    const Series s(0);
    s.write({.photometric = "MONOCHROME1", .stored = 12});
    CHECK(contains(s.why(), "is MONOCHROME1 of signed numbers of 12 bits"));
  }
  {
    const Series s;
    fs::remove(s.folder / s.name(1));
    CHECK(contains(s.why(), "slices are missing between " + (s.folder / s.name(0)).string()));
    CHECK(contains(s.why(), "they are 6 mm apart, others 3 mm"));
  }
  {
    const Series s;
    fs::copy(s.folder / s.name(2), s.folder / "s/again.dcm");
    CHECK(contains(s.why(), "lie at the same place"));
    CHECK(contains(s.why(), "s/again.dcm"));
  }
  const auto with = [](const Slice& odd) {
    const Series s;
    s.write(odd);
    const std::string why = s.why();
    CHECK_MESSAGE(contains(why, s.name(odd.number)), why);
    return why;
  };
  CHECK(contains(with({.number = 2, .series = "1.2.3.5"}), "another series"));
  CHECK(contains(with({.number = 2, .rows = 5}), "is 5 x 5"));
  CHECK(contains(with({.number = 2, .spacing = "2\\1.6"}), "another orientation or pixel spacing"));
  CHECK(contains(with({.number = 2, .orientation = "0\\1\\0\\1\\0\\0"}), "another orientation"));
  CHECK(contains(with({.number = 2, .position = "none"}), "does not say where it lies"));
  CHECK(contains(with({.number = 2, .position = "11\\-20\\6"}), "does not lie on a line"));
  CHECK(contains(with({.number = 2, .position = "10\\-20\\6.5"}), "mm apart, others 3 mm"));
  const Series s;
  s.folder.write_text("s/notes.txt", "not DICOM");
  CHECK(contains(s.why(), "notes.txt: is no DICOM file"));
  fs::create_directory(s.folder / "empty");
  CHECK(contains(message_of([&] { read_volume(s.folder / "empty"); }), "is an empty folder"));
}

TEST_CASE("A cut DICOM file is refused, wherever it is cut") {
  const Series s;
  const Bytes whole = bytes_of(s.folder / s.name(2));
  for (std::size_t n = 1; n < whole.size(); n = n * 5 / 4 + 1) {
    CAPTURE(n);
    s.folder.write(s.name(2), Bytes(whole.begin(), whole.begin() + long(n)));
    CHECK(contains(s.why(), s.name(2)));
  }
  s.folder.write(s.name(2), Bytes(whole.begin(), whole.end() - 1));
  CHECK(contains(s.why(), s.name(2)));
}

TEST_CASE("What ends or delays the process that reads DICOM ends no other") {
  const Series s;
  const auto with_reader = [&](const std::string& script) {
    const fs::path file = s.folder.write_text("reader", "#!/bin/sh\n" + script + "\n");
    fs::permissions(file, fs::perms::owner_all);
    ::setenv("SLUICE_DICOM", file.c_str(), 1);
    const std::string why = s.why();
    ::unsetenv("SLUICE_DICOM");
    return why;
  };
  CHECK(contains(with_reader("kill -SEGV $$"), "ends the reader (signal 11)"));
  CHECK(contains(with_reader("kill -XCPU $$"), "takes too long"));
  CHECK(contains(with_reader("exit 1"), "ends the reader (exit 1)"));
  CHECK(contains(with_reader("echo '{\"error\": \"it said so\"}'"), "it said so"));
  CHECK(contains(with_reader("echo '{\"type\": \"int16\", \"dim\": [2, 2, 2], \"affine\": "
                             "[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]}'; printf abc"),
                 "before the last voxel"));
  CHECK(s.why().empty());
}

TEST_CASE("A manifest covers every file of a DICOM series") {
  const Series s;
  Manifest manifest(s.folder.path);
  for (int i = 0; i < 4; ++i) manifest.digests[s.name(i)] = sha256_of_file(s.folder / s.name(i));
  const auto why = [&] {
    return message_of([&] {
      read_volume(s.folder / "s", at::kFloat,
                  [&](const fs::path& file) { return manifest.read_listed(file); });
    });
  };
  CHECK(why().empty());
  Bytes bytes = bytes_of(s.folder / s.name(2));
  bytes.back() ^= 1;
  s.folder.write(s.name(2), bytes);
  CHECK(contains(why(), s.name(2) + ": is not the file that was indexed"));
}

TEST_CASE("A real DICOM series reads as SimpleITK reads it") {
  const char* data = std::getenv("SLUICE_TEST_DATA");
  if (!data || !fs::is_directory(fs::path(data) / "dicom")) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  const Volume v = read_volume(fs::path(data) / "dicom/hippocampus_crop", at::kLong);
  REQUIRE(v.data.sizes() == at::IntArrayRef({1, 35, 51, 32}));
  CHECK(v.affine == Matrix4{-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1});
  CHECK(v.data.sum().item<std::int64_t>() == 3346681);
  CHECK(v.data.square().sum().item<std::int64_t>() == 227429913);
  CHECK(v.data[0][11][7][5].item<std::int64_t>() == 17);
  CHECK(v.data[0][10][30][20].item<std::int64_t>() == 71);
}
