// Files are made byte by byte here, and numpy reads what we write and the other way round where
// the virtual environment has it.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "engine/base/error.h"
#include "kernels/files/npy.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

Bytes with_header(std::string text, int version = 1) {
  const std::size_t front = version == 1 ? 10 : 12;
  text.append((64 - (front + text.size() + 1) % 64) % 64, ' ').push_back('\n');
  Bytes bytes{0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(version), 0};
  for (std::size_t i = 8; i < front; ++i)
    bytes.push_back(static_cast<std::uint8_t>(text.size() >> (8 * (i - 8))));
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

template <class T>
Bytes file(const std::string& text, const std::vector<T>& values, bool big = false,
           int version = 1) {
  Bytes bytes = with_header(text, version);
  for (const T& v : values) {
    std::uint8_t raw[sizeof(T)];
    std::memcpy(raw, &v, sizeof(T));
    if (big) std::reverse(raw, raw + sizeof(T));
    bytes.insert(bytes.end(), raw, raw + sizeof(T));
  }
  return bytes;
}

at::Tensor parsed(const Bytes& bytes) { return parse_npy(bytes, "a.npy"); }

std::string refusal(const Bytes& bytes) {
  return message_of([&] { parsed(bytes); });
}

template <class T>
void check_type(const std::string& code, at::ScalarType type) {
  const std::vector<T> values{0, 1, std::numeric_limits<T>::max(),
                              std::numeric_limits<T>::lowest()};
  std::vector<double> expected(values.begin(), values.end());
  for (const bool big : {false, true}) {
    CAPTURE(code);
    const std::string order = sizeof(T) == 1 ? "|" : big ? ">" : "<";
    const at::Tensor t = parsed(file(header(order + code, "(4,)"), values, big));
    CHECK((t.scalar_type() == type));
    CHECK(at::equal(t.to(at::kDouble), at::tensor(expected, at::kDouble)));
  }
}

}  // namespace

TEST_CASE(".npy of every type in both byte orders") {
  check_type<std::uint8_t>("u1", at::kByte);
  check_type<std::int8_t>("i1", at::kChar);
  check_type<std::uint16_t>("u2", at::kInt);
  check_type<std::int16_t>("i2", at::kShort);
  check_type<std::uint32_t>("u4", at::kLong);
  check_type<std::int32_t>("i4", at::kInt);
  check_type<std::int64_t>("i8", at::kLong);
  check_type<float>("f4", at::kFloat);
  check_type<double>("f8", at::kDouble);
  const at::Tensor half = parsed(file<std::uint16_t>(header("<f2", "(2,)"), {0x3c00, 0xc100}));
  CHECK(at::equal(half.to(at::kFloat), at::tensor({1.0f, -2.5f})));
  CHECK((half.scalar_type() == at::kHalf));
  const at::Tensor mask = parsed(file<std::uint8_t>(header("|b1", "(2,)"), {1, 0}));
  CHECK(at::equal(mask, at::tensor({1, 0}, at::kInt).to(at::kBool)));
}

TEST_CASE(".npy in Fortran order, of version 2.0, of rank 0 and with an empty axis") {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const at::Tensor c = parsed(file(header("<f4", "(2, 3)"), values));
  CHECK(at::equal(c, at::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({2, 3})));
  const at::Tensor f = parsed(file(header("<f4", "(2, 3)", true), values));
  CHECK(at::equal(f, at::tensor({1.f, 3.f, 5.f, 2.f, 4.f, 6.f}).reshape({2, 3})));
  CHECK(f.is_contiguous());
  CHECK(at::equal(parsed(file(header("<f4", "(2, 3)"), values, false, 2)), c));
  CHECK(at::equal(parsed(file(header(">f4", "(2, 3)", true), values, true)), f));
  CHECK(parsed(file<float>(header("<f4", "()"), {2.5f})).item<float>() == 2.5f);
  CHECK(parsed(with_header(header("<f4", "(0, 3)"))).sizes().vec() ==
        std::vector<std::int64_t>{0, 3});
}

TEST_CASE("A .npy that is damaged, cut, too long or absurd is refused with its name") {
  const std::vector<float> two{1, 2};
  const Bytes good = file(header("<f4", "(2,)"), two);
  CHECK(refusal(good).empty());
  for (std::size_t n = 0; n < good.size(); ++n) {
    const std::string why = refusal(Bytes(good.begin(), good.begin() + static_cast<long>(n)));
    CAPTURE(n);
    CHECK(contains(why, "a.npy: "));
  }
  Bytes longer = good;
  longer.push_back(0);
  CHECK(contains(refusal(longer), "is too long (expected 136 bytes, got 137)"));
  const std::pair<std::string, const char*> bad[] = {
      {header("<f4", "(3,)"), "ends early"},
      {header("<f4", "(9000000000000000000, 9000000000000000000)"), "declares more than"},
      {header("<f4", "(0, 9000000000000000000)"), "declares more than"},
      {header("<f4", "(99999999999999999999,)"), "64 bits"},
      {header("<f4", "(-2,)"), "length of an axis"},
      {header("<f4", "(2)"), "not a tuple"},
      {header("<f4", "(1 2)"), "expected , or )"},
      {header("|O", "(2,)"), "holds \"|O\""},
      {header("<c8", "(2,)"), "holds \"<c8\""},
      {header("<u8", "(2,)"), "holds \"<u8\""},
      {header("|f4", "(2,)"), "holds \"|f4\""},
      {header("f4", "(2,)"), "holds \"f4\""},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "named members"},
      {"{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", "stands twice"},
      {"{'descr': '<f4', 'shape': (2,)}", "needs descr"},
      {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", "neither True nor False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "unknown member"},
      {header("<f4", "(2,)") + " x", "something follows"},
      {"", "expected {"},
  };
  for (const auto& [text, why] : bad) {
    CAPTURE(text);
    CHECK(contains(refusal(file(text, two)), why));
    CHECK(contains(refusal(file(text, two)), "a.npy: "));
  }
  CHECK(contains(refusal(file<std::uint8_t>(header("|b1", "(2,)"), {1, 2})), "bool"));
  CHECK(contains(refusal(with_header(header("<f4", "()"), 3)), "version 3.0"));
  std::string axes;
  for (int i = 0; i < 33; ++i) axes += "1, ";
  CHECK(contains(refusal(file<float>(header("<f4", "(" + axes + ")"), {1})), "33 axes"));
}

TEST_CASE("Mutated .npy files are read or refused, nothing else") {
  const Bytes seeds[] = {file<float>(header("<f4", "(2, 3)", true), {1, 2, 3, 4, 5, 6}),
                         file<std::uint16_t>(header(">u2", "(1, 2, 1)"), {1, 2}, true, 2)};
  std::mt19937 random(7);
  int read = 0;
  for (int round = 0; round < 100'000; ++round) {
    Bytes bytes = seeds[round % 2];
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % (round % 5 ? 80 : bytes.size());
      const unsigned what = random() % 4;
      if (what == 0) bytes[at] ^= static_cast<std::uint8_t>(1u << (random() % 8));
      if (what == 1) bytes[at] = static_cast<std::uint8_t>("0123456789(),'<>|{} "[random() % 20]);
      if (what == 2) bytes.erase(bytes.begin() + static_cast<long>(at));
      if (what == 3) bytes.insert(bytes.begin() + static_cast<long>(at), bytes[at]);
    }
    try {
      const at::Tensor t = parsed(bytes);
      CHECK(t.numel() <= 24);  // no more than the bytes that are there
      ++read;
    } catch (const DataError& e) {
      CHECK(contains(e.what(), "a.npy: "));
    }
  }
  CHECK(read > 100);
}

TEST_CASE("A written .npy reads back the same, whatever its layout") {
  TemporaryFolder folder;
  for (const auto type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
                          at::kHalf, at::kFloat, at::kDouble}) {
    const at::Tensor t = at::arange(24).remainder(5).to(type).reshape({2, 3, 4}).transpose(0, 2);
    write_npy(folder / "a.npy", t);
    const at::Tensor back = read_npy(folder / "a.npy");
    CHECK((back.scalar_type() == type));
    CHECK(at::equal(back, t));
  }
  write_npy(folder / "a.npy", at::scalar_tensor(2.5, at::kDouble));
  CHECK(read_npy(folder / "a.npy").dim() == 0);
  CHECK_THROWS_AS(write_npy(folder / "a.npy", at::zeros({1}, at::kComplexFloat)), DataError);
  CHECK(contains(message_of([&] { read_npy(folder / "none.npy"); }), "no such file"));
}

TEST_CASE("numpy reads what is written and is read") {
  TemporaryFolder folder;
  const std::string python = SLUICE_PYTHON;
  const auto runs = [&](const std::string& code) {
    folder.write_text("a.py", code);
    return std::system(
               ("cd " + folder.path.string() + " && " + python + " a.py 2>/dev/null").c_str()) == 0;
  };
  if (!runs("import numpy")) {
    MESSAGE("skipped: " << python << " has no numpy");
    return;
  }
  write_npy(folder / "ours.npy", at::arange(6, at::kShort).reshape({3, 2}));
  CHECK(
      runs("import numpy as np\n"
           "a = np.load('ours.npy')\n"
           "assert a.dtype == np.int16 and (a == np.arange(6).reshape(3, 2)).all()\n"
           "np.save('c.npy', np.arange(6.0).reshape(1, 2, 3))\n"
           "np.save('f.npy', np.asfortranarray(np.arange(6).reshape(2, 3).astype('>u2')))\n"
           "np.save('s.npy', np.float32(0.1))\n"));
  CHECK(at::equal(read_npy(folder / "c.npy"), at::arange(6, at::kDouble).reshape({1, 2, 3})));
  CHECK(at::equal(read_npy(folder / "f.npy"), at::arange(6, at::kInt).reshape({2, 3})));
  CHECK(read_npy(folder / "s.npy").item<float>() == 0.1f);
}
