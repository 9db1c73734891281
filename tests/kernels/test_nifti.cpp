// Files are made byte by byte here, so that reader and writer are not only checked against each
// other; the golden affines come from nibabel 5.4.2.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "engine/base/error.h"
#include "kernels/files/gzip.h"
#include "kernels/files/nifti.h"
#include "kernels/lists/data_list.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

// A NIfTI file under construction, in either version and byte order.
struct Made {
  Bytes bytes;
  bool big, two;

  explicit Made(std::vector<std::int64_t> dim, std::int16_t datatype = 4, std::int16_t bits = 16,
                bool big_endian = false, bool version2 = false)
      : bytes(version2 ? 544 : 352, 0), big(big_endian), two(version2) {
    put<std::int32_t>(0, two ? 540 : 348);
    std::memcpy(&bytes[two ? 4 : 344], two ? "n+2\0\r\n\032\n" : "n+1\0", two ? 8 : 4);
    put<std::int16_t>(two ? 12 : 70, datatype);
    put<std::int16_t>(two ? 14 : 72, bits);
    set_dim(0, static_cast<std::int64_t>(dim.size()));
    for (std::size_t i = 0; i < dim.size(); ++i) set_dim(i + 1, dim[i]);
    for (std::size_t i = 0; i < 8; ++i) real(76, 104, i, 1);
    if (two)
      put<std::int64_t>(168, 544);
    else
      put<float>(108, 352);
  }
  template <class T>
  void put(std::size_t at, T value) {
    std::uint8_t raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    if (big) std::reverse(raw, raw + sizeof(T));
    if (bytes.size() < at + sizeof(T)) bytes.resize(at + sizeof(T));
    std::memcpy(&bytes[at], raw, sizeof(T));
  }
  void set_dim(std::size_t i, std::int64_t n) {
    two ? put<std::int64_t>(16 + 8 * i, n)
        : put<std::int16_t>(40 + 2 * i, static_cast<std::int16_t>(n));
  }
  void real(std::size_t at1, std::size_t at2, std::size_t i, double v) {
    two ? put<double>(at2 + 8 * i, v) : put<float>(at1 + 4 * i, static_cast<float>(v));
  }
  void scaling(double slope, double inter) {
    real(112, 176, 0, slope);
    real(116, 184, 0, inter);
  }
  void code(std::size_t at1, std::size_t at2, int v) {
    two ? put<std::int32_t>(at2, v) : put<std::int16_t>(at1, static_cast<std::int16_t>(v));
  }
  void sform(const std::vector<double>& rows, int c = 1) {
    code(254, 348, c);
    for (std::size_t i = 0; i < 12; ++i) real(280, 400, i, rows[i]);
  }
  void qform(double b, double c, double d, double x, double y, double z, int code_value = 1) {
    code(252, 344, code_value);
    const double v[] = {b, c, d, x, y, z};
    for (std::size_t i = 0; i < 6; ++i) real(256, 352, i, v[i]);
  }
  template <class T>
  void voxels(const std::vector<T>& values) {
    for (T v : values) put<T>(bytes.size(), v);
  }
};

Bytes compressed(const Bytes& raw, int level = 6) {
  const FileBytes b = gzip(raw, level);
  return Bytes(b.data(), b.data() + b.size());
}

Made counting(std::vector<std::int64_t> dim) {
  Made m(dim);
  std::int64_t n = 1;
  for (auto d : dim) n *= d;
  for (std::int64_t i = 0; i < n; ++i)
    m.put<std::int16_t>(m.bytes.size(), static_cast<std::int16_t>(i - 5));
  return m;
}

std::string why_not(const std::filesystem::path& path, at::ScalarType dtype = at::kFloat) {
  return message_of([&] { read_nifti(path, dtype); });
}

template <class T>
void check_round_trip(const TemporaryFolder& folder, std::int16_t code, const std::string& name) {
  CAPTURE(name);
  const std::vector<T> values{std::numeric_limits<T>::lowest(), T(0), T(1), T(2), T(100),
                              std::numeric_limits<T>::max()};
  for (bool big : {false, true})
    for (bool two : {false, true}) {
      Made m({3, 2}, code, 8 * sizeof(T), big, two);
      m.voxels(values);
      for (const auto& file :
           {folder.write("a.nii", m.bytes), folder.write("b.nii.gz", compressed(m.bytes))}) {
        const Volume v = read_nifti(file);
        CHECK(v.disk_dtype == name);
        REQUIRE(v.data.sizes() == at::IntArrayRef({1, 3, 2}));
        for (int x = 0; x < 3; ++x)
          for (int y = 0; y < 2; ++y)
            CHECK(v.data[0][x][y].item<float>() == static_cast<float>(values[x + 3 * y]));
      }
    }
}

}  // namespace

TEST_CASE("Names in capitals are names of volumes, and of a pair's halves") {
  const TemporaryFolder folder;
  Made m = counting({3, 2});
  const at::Tensor expected = read_nifti(folder.write("a.nii", m.bytes)).data;
  CHECK(read_volume(folder.write("C.NII.GZ", compressed(m.bytes))).data.equal(expected));
  CHECK(contains(why_not(folder.write("D.NII.GZ", m.bytes)), "is named .gz but is not compressed"));
  CHECK(file_stem("x/C.NII.GZ") == "C");
  for (const char* uid : {"x/1.2.840.7", "x/1.2.840.7/", "x/1.2.840.7.nii.gz", "1.2.840.7.dcm"})
    CHECK(file_stem(uid) == "1.2.840.7");
  m.bytes[345] = 'i';
  m.put<float>(108, 0);
  const Bytes head(m.bytes.begin(), m.bytes.begin() + 348);
  const Bytes voxels(m.bytes.begin() + 352, m.bytes.end());
  folder.write("P.HDR", head);
  CHECK(read_volume(folder.write("P.IMG", voxels)).data.equal(expected));
  folder.write("Q.hdr.gz", compressed(head));
  CHECK(read_volume(folder.write("Q.img.gz", compressed(voxels))).data.equal(expected));
}

TEST_CASE("Every scalar datatype is read, in both byte orders, versions and compressions") {
  TemporaryFolder folder;
  check_round_trip<std::uint8_t>(folder, 2, "uint8");
  check_round_trip<std::int8_t>(folder, 256, "int8");
  check_round_trip<std::uint16_t>(folder, 512, "uint16");
  check_round_trip<std::int16_t>(folder, 4, "int16");
  check_round_trip<std::uint32_t>(folder, 768, "uint32");
  check_round_trip<std::int32_t>(folder, 8, "int32");
  check_round_trip<std::uint64_t>(folder, 1280, "uint64");
  check_round_trip<std::int64_t>(folder, 1024, "int64");
  check_round_trip<float>(folder, 16, "float32");
  check_round_trip<double>(folder, 64, "float64");
}

TEST_CASE("Voxels are transposed from Fortran to C order for every shape around the strip width") {
  TemporaryFolder folder;
  for (std::int64_t x : {1, 2, 31, 32, 33, 70})
    for (std::int64_t y : {1, 5})
      for (std::int64_t z : {1, 3, 40}) {
        const auto file = folder.write("a.nii", counting({x, y, z}).bytes);
        const at::Tensor expected =
            at::arange(x * y * z, at::kFloat).sub(5).view({z, y, x}).permute({2, 1, 0});
        CHECK(read_nifti(file).data.equal(expected.unsqueeze(0)));
      }
}

TEST_CASE("A fourth axis becomes the channels and trailing ones are dropped") {
  TemporaryFolder folder;
  const Volume v = read_nifti(folder.write("a.nii", counting({4, 3, 2, 5, 1, 1, 1}).bytes));
  const auto expected = at::arange(120, at::kFloat).sub(5).view({5, 2, 3, 4}).permute({0, 3, 2, 1});
  CHECK(v.data.equal(expected));
  CHECK(read_nifti(folder.write("b.nii", counting({4, 3, 1, 1}).bytes)).data.sizes() ==
        at::IntArrayRef({1, 4, 3, 1}));
  CHECK(read_nifti(folder.write("c.nii", counting({4}).bytes)).data.sizes() ==
        at::IntArrayRef({1, 4}));
}

TEST_CASE("A slope is applied in double precision, and 0 and NaN mean none, as nibabel has it") {
  TemporaryFolder folder;
  const auto read_with = [&](double slope, double inter) {
    Made m = counting({2, 2, 2});
    m.scaling(slope, inter);
    return read_nifti(folder.write("a.nii", m.bytes)).data.flatten();
  };
  CHECK(read_with(0, 7)[0].item<float>() == -5);
  CHECK(read_with(NAN, 7)[0].item<float>() == -5);
  CHECK(read_with(2.5, -1)[0].item<float>() == -13.5f);
  const double third = static_cast<float>(1.0 / 3);
  CHECK(read_with(third, 0.25)[7].item<float>() == static_cast<float>(2 * third + 0.25));
  Made bad = counting({2, 2, 2});
  bad.scaling(1, INFINITY);
  CHECK(contains(why_not(folder.write("b.nii", bad.bytes)), "scl_inter"));
}

TEST_CASE("The sform comes before the qform where pixdim agrees, the qform before pixdim") {
  TemporaryFolder folder;
  const auto affine = [&](const Made& m) {
    return read_nifti(folder.write("a.nii", m.bytes)).affine;
  };
  const auto near = [](const Matrix4& a, const Matrix4& b) {
    for (std::size_t i = 0; i < 16; ++i)
      if (std::abs(a[i] - b[i]) > 1e-6) return false;
    return true;
  };
  Made m = counting({5, 7, 9});
  for (std::size_t i = 0; i < 3; ++i) m.real(76, 104, 1 + i, std::vector{2.0, 0.5, 3.0}[i]);
  SUBCASE("neither") {
    CHECK(near(affine(m), {-2, 0, 0, 4, 0, 0.5, 0, -1.5, 0, 0, 3, -12, 0, 0, 0, 1}));
  }
  SUBCASE("qform, a rotation of 0.1, 0.2, 0.3 about x, y, z, mirrored") {
    m.qform(0.0342708, 0.1060205, 0.1435722, 10, 20, 30);
    m.real(76, 104, 0, -1);
    CHECK(near(affine(m), {1.8725867, -0.1375479, -0.6550519, 10,  //
                           0.5792590, 0.4782125, 0.1108710, 20,    //
                           -0.3973386, 0.0489217, -2.9255110, 30, 0, 0, 0, 1}));
  }
  SUBCASE("both, of which pixdim is the sform's") {
    const double sizes[] = {1.5, std::sqrt(4 + 0.015625), std::sqrt(9 + 0.0625)};
    for (std::size_t i = 0; i < 3; ++i) m.real(76, 104, 1 + i, sizes[i]);
    m.qform(0, 0, 0, 1, 2, 3);
    m.sform({1.5, 0, 0.25, -90, 0, -2, 0, 126, 0, 0.125, 3, -72});
    CHECK(near(affine(m), {1.5, 0, 0.25, -90, 0, -2, 0, 126, 0, 0.125, 3, -72, 0, 0, 0, 1}));
    const auto spacing = read_nifti(folder / "a.nii").spacing;
    CHECK(spacing[0] == 1.5);
    CHECK(spacing[1] == doctest::Approx(std::sqrt(4 + 0.015625)));
  }
  SUBCASE("both, of which pixdim is the qform's alone") {
    m.qform(0, 0, 0, 1, 2, 3);
    m.sform({1, 0, 0, 7, 0, 1, 0, 8, 0, 0, 1, 9});
    CHECK(near(affine(m), {2, 0, 0, 1, 0, 0.5, 0, 2, 0, 0, 3, 3, 0, 0, 0, 1}));
  }
  SUBCASE("an sform that pixdim contradicts, and no qform") {
    m.sform({1, 0, 0, 7, 0, 1, 0, 8, 0, 0, 1, 9});
    CHECK(near(affine(m), {1, 0, 0, 7, 0, 1, 0, 8, 0, 0, 1, 9, 0, 0, 0, 1}));
  }
  SUBCASE("an sform with code 0 is not used") {
    m.qform(0, 0, 0, 1, 2, 3);
    m.sform({9, 0, 0, 9, 0, 9, 0, 9, 0, 0, 9, 9}, 0);
    CHECK(near(affine(m), {2, 0, 0, 1, 0, 0.5, 0, 2, 0, 0, 3, 3, 0, 0, 0, 1}));
  }
}

TEST_CASE("An integer dtype is exact or refused") {
  TemporaryFolder folder;
  Made m({3}, 16, 32);
  m.voxels<float>({0, 2, 255});
  const auto good = folder.write("a.nii", m.bytes);
  CHECK(read_nifti(good, at::kByte).data.equal(at::tensor({0, 2, 255}, at::kByte).unsqueeze(0)));
  for (float bad : {0.5f, -1.f, 256.f, NAN, INFINITY}) {
    m.put<float>(352, bad);
    const auto file = folder.write("b.nii", m.bytes);
    CHECK(contains(why_not(file, at::kByte), "1 voxels hold values that are no uint8"));
  }
  Made wide({2}, 64, 64);
  wide.voxels<double>({-9223372036854775808.0, 9223372036854775808.0});
  CHECK(contains(why_not(folder.write("c.nii", wide.bytes), at::kLong), "1 voxels"));
}

TEST_CASE("What is written is read back: every datatype, plain and compressed") {
  TemporaryFolder folder;
  const Matrix4 affine{0, -1.5, 0, 5, 2, 0, 0, -6, 0, 0, 3, 7, 0, 0, 0, 1};
  const at::Tensor data = at::arange(2 * 33 * 3 * 5, at::kFloat).remainder(120).view({2, 33, 3, 5});
  for (const char* dtype : {"uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64",
                            "int64", "float32", "float64"})
    for (const char* file : {"a.nii", "a.nii.gz"}) {
      CAPTURE(dtype);
      write_nifti(folder / file, data, affine, dtype);
      const Volume v = read_nifti(folder / file);
      CHECK(v.data.equal(data));
      CHECK(v.affine == affine);
      CHECK(v.disk_dtype == dtype);
    }
  write_nifti(folder / "one.nii", data[0], affine);
  CHECK(read_nifti(folder / "one.nii").data.equal(data.slice(0, 0, 1)));
  CHECK(folder.files() == 3);
}

TEST_CASE("A written qform agrees with the sform where the affine is orthogonal") {
  TemporaryFolder folder;
  const auto data = at::zeros({2, 2, 2});
  const std::vector<Matrix4> orthogonal{
      {1, 0, 0, 1, 0, 1, 0, 2, 0, 0, 1, 3, 0, 0, 0, 1},
      {-2, 0, 0, 1, 0, -3, 0, 2, 0, 0, 1, 3, 0, 0, 0, 1},
      {0, 0, 1, 4, 2, 0, 0, 5, 0, -3, 0, 6, 0, 0, 0, 1},
      {-1, 0, 0, 4, 0, 1, 0, 5, 0, 0, 1, 6, 0, 0, 0, 1},
      {1.8725867, -0.1375479, -0.6550519, 10, 0.5792590, 0.4782125, 0.1108710, 20, -0.3973386,
       0.0489217, -2.9255110, 30, 0, 0, 0, 1}};
  for (const auto& affine : orthogonal) {
    write_nifti(folder / "a.nii", data, affine);
    Bytes bytes = bytes_of(folder / "a.nii");
    CHECK(bytes[252] == 1);  // as MONAI's NibabelWriter
    CHECK(bytes[254] == 1);
    bytes[254] = 0;  // now the qform speaks
    const auto read = read_nifti(folder.write("b.nii", bytes)).affine;
    for (std::size_t i = 0; i < 16; ++i) CHECK(read[i] == doctest::Approx(affine[i]).epsilon(1e-5));
  }
  write_nifti(folder / "a.nii", data, {1, 0.3, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  CHECK(bytes_of(folder / "a.nii")[252] == 0);
}

TEST_CASE("Writing refuses what the datatype cannot hold and leaves nothing behind") {
  TemporaryFolder folder;
  const auto write = [&](const at::Tensor& t, const std::string& dtype) {
    return message_of([&] { write_nifti(folder / "a.nii.gz", t, Volume{}.affine, dtype); });
  };
  CHECK(contains(write(at::full({2, 2, 2}, 300.0), "uint8"), "do not fit uint8"));
  CHECK(contains(write(at::full({2, 2, 2}, NAN), "int16"),
                 "values that are not a number (NaN) do not fit int16"));
  CHECK(contains(write(at::zeros({2, 2}), "int16"), "axes"));
  CHECK(contains(write(at::zeros({1, 40000, 1}), "uint8"), "cannot hold an axis of 40000"));
  CHECK(folder.files() == 0);
  const auto full = message_of([&] { write_nifti("/dev/full/a.nii", at::zeros({2, 2, 2}), {}); });
  CHECK(contains(full, "/dev/full"));
}

TEST_CASE("Any truncation is refused, with the lengths in the message") {
  TemporaryFolder folder;
  const Bytes raw = counting({21, 17, 11}).bytes;
  const Bytes gz = compressed(raw);
  int refused = 0, tried = 0;
  for (std::size_t n = 0; n < raw.size(); n += 97, ++tried)
    refused += !why_not(folder.write("a.nii", Bytes(raw.begin(), raw.begin() + long(n)))).empty();
  for (std::size_t n = 0; n < gz.size(); n += 7, ++tried)
    refused += !why_not(folder.write("a.nii.gz", Bytes(gz.begin(), gz.begin() + long(n)))).empty();
  CHECK(tried > 200);
  CHECK(refused == tried);
  const auto half = folder.write("h.nii.gz", Bytes(gz.begin(), gz.end() - 600));
  CHECK(contains(why_not(half), "gzip stream ends early (expected 8,206 bytes, got "));
  CHECK(contains(why_not(half), half.string()));
  for (const int n : {1, 4, 8})
    CHECK(contains(why_not(folder.write("t.nii.gz", Bytes(gz.begin(), gz.end() - n))),
                   "gzip stream ends early: its trailer, with checksum and length, is missing"));
  const auto plain = folder.write("h.nii", Bytes(raw.begin(), raw.end() - 1));
  CHECK(contains(why_not(plain), "ends early (expected 8,206 bytes, got 8,205)"));
}

TEST_CASE("No flipped bit of a compressed file changes a voxel unseen") {
  TemporaryFolder folder;
  const Bytes gz = compressed(counting({21, 17, 11}).bytes);
  const auto good = read_nifti(folder.write("good.nii.gz", gz));
  int refused = 0, wrong = 0, tried = 0;
  for (std::size_t bit = 0; bit < 8 * gz.size(); bit += 23, ++tried) {
    Bytes bad = gz;
    bad[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    try {
      const auto v = read_nifti(folder.write("a.nii.gz", bad));
      wrong += !v.data.equal(good.data) || v.affine != good.affine;
    } catch (const DataError&) {
      ++refused;
    }
  }
  CHECK(tried > 500);
  CHECK(wrong == 0);
  CHECK(refused > tried - 10);  // the rest: time stamp and system of gzip's own header
}

TEST_CASE("Bytes after the end are refused, zeros after a stream and whole further members read") {
  TemporaryFolder folder;
  const Bytes raw = counting({4, 4, 4}).bytes;
  Bytes gz = compressed(raw);
  Bytes longer = raw;
  longer.push_back(0);
  CHECK(contains(why_not(folder.write("a.nii", longer)), "is too long"));
  CHECK(contains(why_not(folder.write("a.nii.gz", compressed(longer))), "holds more than"));
  Bytes padded = gz;
  padded.insert(padded.end(), 512, 0);
  const at::Tensor expected = read_nifti(folder.write("a.nii", raw)).data;
  CHECK(read_nifti(folder.write("a.nii.gz", padded)).data.equal(expected));
  const Bytes none = compressed({});
  padded.insert(padded.end(), none.begin(), none.end());
  CHECK(read_nifti(folder.write("a.nii.gz", padded)).data.equal(expected));
  for (std::uint8_t extra : {1, 0x1f}) {
    Bytes bad = gz;
    bad.push_back(extra);
    CHECK(contains(why_not(folder.write("a.nii.gz", bad)), "1 bytes of garbage"));
  }
  Bytes members;
  for (std::size_t at = 0; at < raw.size(); at += 100) {
    const auto end = std::min(raw.size(), at + 100);
    const Bytes part = compressed(Bytes(raw.begin() + long(at), raw.begin() + long(end)));
    members.insert(members.end(), part.begin(), part.end());
  }
  CHECK(read_nifti(folder.write("m.nii.gz", members)).data[0][3][3][3].item<float>() == 58);
  Bytes bad_sum = gz;
  bad_sum[gz.size() - 6] ^= 1;
  CHECK(contains(why_not(folder.write("a.nii.gz", bad_sum)), "bad gzip checksum"));
  Bytes bad_length = gz;
  bad_length[gz.size() - 2] ^= 1;
  CHECK(contains(why_not(folder.write("a.nii.gz", bad_length)), "bad gzip length"));
}

TEST_CASE("A header whose numbers cannot be true is refused before memory is taken for it") {
  TemporaryFolder folder;
  const auto refusal = [&](auto change, bool two = false) {
    Made m({4, 4, 4}, 4, 16, false, two);
    m.voxels(std::vector<std::int16_t>(64));
    change(m);
    const auto why = why_not(folder.write("a.nii", m.bytes));
    CHECK(why == why_not(folder.write("a.nii", m.bytes)));
    return why;
  };
  CHECK(refusal([](Made&) {}) == "");
  CHECK(contains(refusal([](Made& m) { m.put<std::int16_t>(72, 8); }), "bitpix is 8"));
  CHECK(refusal([](Made& m) { m.put<std::int16_t>(72, 0); }) == "");  // not set
  CHECK(contains(refusal([](Made& m) { m.set_dim(0, 8); }), "dim[0] is 8"));
  CHECK(contains(refusal([](Made& m) { m.set_dim(0, 0); }), "is 0"));
  CHECK(contains(refusal([](Made& m) { m.set_dim(2, -4); }), "dim[2] is -4"));
  CHECK(contains(refusal([](Made& m) { m.set_dim(3, 0); }), "dim[3] is 0"));
  CHECK(contains(refusal([](Made& m) { m.put<std::int16_t>(70, 128); }), "datatype 128"));
  CHECK(contains(refusal([](Made& m) { m.put<float>(108, 348); }), "vox_offset"));
  CHECK(contains(refusal([](Made& m) { m.put<float>(108, NAN); }), "vox_offset"));
  CHECK(contains(refusal([](Made& m) { m.put<float>(108, 368); }), "ends early"));
  CHECK(contains(refusal([](Made& m) { m.bytes[344] = 'x'; }), "bad magic"));
  CHECK(contains(refusal([](Made& m) { m.bytes[345] = 'i'; }), "half of a pair"));
  CHECK(contains(refusal([](Made& m) { m.sform(std::vector<double>(12, 0.0)); }), "singular"));
  CHECK(contains(refusal([](Made& m) { m.sform(std::vector<double>(12, NAN)); }), "not finite"));
  CHECK(contains(refusal([](Made& m) { m.qform(1, 1, 0, 0, 0, 0); }), "quaternion"));
  for (std::int64_t n : {std::int64_t{1} << 20, std::int64_t{1} << 40, std::int64_t{1} << 62})
    CHECK(contains(refusal(
                       [&](Made& m) {
                         for (int i : {1, 2, 3}) m.set_dim(i, n);
                       },
                       true),
                   "declares more than 8,589,934,592 bytes"));
  Made bomb({2000, 1000, 500});
  CHECK(contains(why_not(folder.write("b.nii.gz", compressed(bomb.bytes))),
                 "expected 2,000,000,352"));
}

TEST_CASE("A path that is no file says so") {
  TemporaryFolder folder;
  CHECK(contains(why_not(folder / "no.nii.gz"), "no such file"));
  CHECK(contains(why_not(folder.path), "is a directory"));
  CHECK(contains(why_not(folder.write("e.nii.gz", {})), "empty file"));
  CHECK(contains(why_not(folder.write("t.nii", Bytes(10))), "is no NIfTI file"));
  CHECK(contains(why_not(folder.write("t.nii", Bytes(1000))), "is no NIfTI file"));
  CHECK(contains(why_not(folder.write("t.nii.gz", Bytes(1000))), "is not compressed"));
  CHECK(contains(why_not(folder.write("t.nii", compressed(Bytes(1000)))), "must end in .gz"));
  CHECK(contains(why_not(folder.write("t.nii.gz", compressed(Bytes(1000)))), "is no NIfTI file"));
  REQUIRE(::mkfifo((folder / "f.nii").c_str(), 0600) == 0);
  CHECK(contains(why_not(folder / "f.nii"), "is not a regular file"));
}

TEST_CASE("A sibling with the other extension is never read instead") {
  TemporaryFolder folder;
  folder.write("B.nii", counting({2, 2, 2}).bytes);
  CHECK(contains(why_not(folder / "B.nii.gz"), "no such file"));
}

TEST_CASE("A real volume reads as nibabel reads it") {
  const char* root = std::getenv("SLUICE_TEST_DATA");
  if (!root) {
    MESSAGE("skipped: SLUICE_TEST_DATA is not set");
    return;
  }
  const auto folder = std::filesystem::path(root) / "Task04_Hippocampus/imagesTr";
  const Volume v = read_nifti(folder / "hippocampus_001.nii.gz");
  CHECK(v.data.sizes() == at::IntArrayRef({1, 35, 51, 35}));
  CHECK(v.data.sum(at::kDouble).item<double>() == 3968524);
  CHECK(v.data[0][10][20][30].item<float>() == 101);
  CHECK(v.data[0][30][20][10].item<float>() == 58);
  CHECK(v.affine == Matrix4{1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1});
}
