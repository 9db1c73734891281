// Pictures beside Pillow 13.0 and tifffile: TIFF in tiles, planes, pages and of any number of bits,
// and the numbers of pictures with palettes.
#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <libdeflate.h>

#include "kernels/files/volume.h"
#include "tests/picture_bytes.h"
#include "tests/temporary_folder.h"
#include "tests/zlib_bytes.h"

using namespace sluice;

namespace {

// A TIFF file, page by page; all numbers are of 4 bytes, or of 8 in a BigTIFF.
class Tiff {
 public:
  using Tags = std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>>;
  explicit Tiff(bool big = false) : wide_(big ? 8 : 4) {
    bytes = {'I', 'I', std::uint8_t(big ? 43 : 42), 0};
    if (big) append(bytes, 8, 4);
    link_ = bytes.size();
    put(0, wide_);
  }
  std::uint32_t add(const Bytes& data) {
    bytes.insert(bytes.end(), data.begin(), data.end());
    return std::uint32_t(bytes.size() - data.size());
  }
  void page(const Tags& tags) {
    std::vector<std::uint32_t> places;
    for (const auto& [tag, values] : tags) {
      places.push_back(values.size() == 1 ? values[0] : std::uint32_t(bytes.size()));
      if (values.size() > 1)
        for (const auto v : values) append(bytes, v, 4);
    }
    Bytes place;
    append(place, std::uint32_t(bytes.size()), 4);
    std::copy(place.begin(), place.end(), bytes.begin() + long(link_));
    put(tags.size(), wide_ == 8 ? 8 : 2);
    for (std::size_t i = 0; i < tags.size(); ++i) {
      append(bytes, tags[i].first, 2);
      append(bytes, 4, 2);  // LONG
      put(tags[i].second.size(), wide_);
      put(places[i], wide_);
    }
    link_ = bytes.size();
    put(0, wide_);
  }
  Bytes bytes;

 private:
  void put(std::size_t n, int size) {
    append(bytes, std::uint32_t(n), 4);
    bytes.resize(bytes.size() - 4 + std::size_t(size));
  }
  int wide_;
  std::size_t link_ = 0;
};

Bytes little(const at::Tensor& values, int bytes) {
  Bytes out;
  const at::Tensor v = values.to(at::kLong).contiguous();
  for (std::int64_t i = 0; i < v.numel(); ++i)
    append(out, std::uint32_t(v.const_data_ptr<std::int64_t>()[i]), bytes);
  return out;
}

// [rows, columns] of one page in tiles of 16 x 16.
Bytes tiled(const at::Tensor& image, bool big) {
  Tiff t(big);
  std::vector<std::uint32_t> places, sizes;
  for (std::int64_t y = 0; y < image.size(0); y += 16)
    for (std::int64_t x = 0; x < image.size(1); x += 16) {
      at::Tensor tile = at::zeros({16, 16}, at::kLong);
      const at::Tensor part = image.slice(0, y, y + 16).slice(1, x, x + 16);
      tile.slice(0, 0, part.size(0)).slice(1, 0, part.size(1)).copy_(part);
      places.push_back(t.add(little(tile, 2)));
      sizes.push_back(512);
    }
  t.page({{256, {std::uint32_t(image.size(1))}},
          {257, {std::uint32_t(image.size(0))}},
          {258, {16}},
          {259, {1}},
          {262, {1}},
          {277, {1}},
          {322, {16}},
          {323, {16}},
          {324, places},
          {325, sizes}});
  return t.bytes;
}

// One strip, 8 bits or fewer.
Tiff::Tags strip(Tiff& t, std::uint32_t columns, std::uint32_t rows, const Bytes& data,
                 std::uint32_t bits = 8, std::uint32_t photometric = 1, std::uint32_t kind = 0) {
  return {{254, {kind}},        {256, {columns}},
          {257, {rows}},        {258, {bits}},
          {259, {1}},           {262, {photometric}},
          {273, {t.add(data)}}, {277, {1}},
          {278, {rows}},        {279, {std::uint32_t(data.size())}}};
}

void chunk(Bytes& png, const std::string& type, const Bytes& body) {
  const auto put = [&](std::uint32_t n) {
    for (int shift = 24; shift >= 0; shift -= 8) png.push_back(std::uint8_t(n >> shift));
  };
  put(std::uint32_t(body.size()));
  Bytes named(type.begin(), type.end());
  named.insert(named.end(), body.begin(), body.end());
  png.insert(png.end(), named.begin(), named.end());
  put(libdeflate_crc32(0, named.data(), named.size()));
}

// `rows`: each with its filter's byte.
Bytes png(std::uint8_t columns, std::uint8_t lines, std::uint8_t bits, std::uint8_t colour,
          const Bytes& rows, const Bytes& palette = {}, const Bytes& transparency = {},
          std::uint8_t adam7 = 0) {
  Bytes out{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  chunk(out, "IHDR", {0, 0, 0, columns, 0, 0, 0, lines, bits, colour, 0, 0, adam7});
  if (!palette.empty()) chunk(out, "PLTE", palette);
  if (!transparency.empty()) chunk(out, "tRNS", transparency);
  chunk(out, "IDAT", zlib_bytes(rows));
  chunk(out, "IEND", {});
  return out;
}

// 3 x 2 with a palette of four colours, of 8 or 1 bits; rows from the bottom.
Bytes bmp(std::uint32_t bits, const Bytes& palette, const Bytes& rows) {
  const auto first = std::uint32_t(54 + palette.size());
  Bytes b{'B', 'M'};
  for (const std::uint32_t n : {first + std::uint32_t(rows.size()), 0u, first, 40u, 3u, 2u})
    append(b, n, 4);
  append(b, 1, 2);
  append(b, bits, 2);
  for (const std::uint32_t n : {0u, 0u, 0u, 0u, std::uint32_t(palette.size() / 4), 0u})
    append(b, n, 4);
  b.insert(b.end(), palette.begin(), palette.end());
  b.insert(b.end(), rows.begin(), rows.end());
  return b;
}

// [1, columns, rows] of rows.
at::Tensor rows_of(const std::vector<float>& values, std::int64_t columns) {
  return at::tensor(values).view({-1, columns}).t().unsqueeze(0);
}

const at::Tensor palette_numbers = rows_of({0, 1, 2, 2, 1, 0}, 3);
const Bytes three_colours{0, 0, 0, 128, 10, 20, 0, 128, 7};
const at::Tensor in_colours =
    at::cat({rows_of({0, 128, 0, 0, 128, 0}, 3), rows_of({0, 10, 128, 128, 10, 0}, 3),
             rows_of({0, 20, 7, 7, 20, 0}, 3)});

}  // namespace

TEST_CASE("TIFF in tiles, by planes and as BigTIFF keeps its numbers") {
  const TemporaryFolder folder;
  const at::Tensor image = at::arange(20 * 37, at::kLong).mul(83).view({20, 37});
  for (const bool big : {false, true}) {
    CAPTURE(big);
    const Volume v = read_volume(folder.write("t.tif", tiled(image, big)), at::kInt);
    CHECK(v.data.equal(image.t().unsqueeze(0).to(at::kInt)));
    CHECK(v.disk_dtype == "uint16");
    CHECK_FALSE(v.numbers.defined());
  }
  Tiff planes;
  const at::Tensor rgb = at::arange(18, at::kLong).mul(7).view({3, 2, 3});  // [C, rows, columns]
  std::vector<std::uint32_t> places;
  for (int c = 0; c < 3; ++c) places.push_back(planes.add(little(rgb[c], 1)));
  planes.page({{256, {3}},
               {257, {2}},
               {258, {8, 8, 8}},
               {259, {1}},
               {262, {2}},
               {273, places},
               {277, {3}},
               {278, {2}},
               {279, {6, 6, 6}},
               {284, {2}}});
  CHECK(read_volume(folder.write("p.tif", planes.bytes), at::kInt)
            .data.equal(rgb.permute({0, 2, 1}).to(at::kInt)));
}

TEST_CASE("A TIFF's pages are slices, reduced ones are passed over, and others are refused") {
  const TemporaryFolder folder;
  const at::Tensor image = at::arange(12, at::kLong).view({2, 2, 3});  // [pages, rows, columns]
  Tiff pages;
  pages.page(strip(pages, 3, 2, little(image[0], 1)));
  pages.page(strip(pages, 1, 1, {200}, 8, 1, 1));
  pages.page(strip(pages, 3, 2, little(image[1], 1)));
  CHECK(read_volume(folder.write("p.tif", pages.bytes), at::kInt)
            .data.equal(image.permute({2, 1, 0}).unsqueeze(0).to(at::kInt)));
  pages.page(strip(pages, 2, 2, {1, 2, 3, 4}));
  const std::string why =
      message_of([&] { read_volume(folder.write("p.tif", pages.bytes), at::kInt); });
  CHECK(why.find("page 3 is 2 x 2 pixels of 1 times 8 bits, the first 3 x 2") != why.npos);
}

TEST_CASE("Pictures of one bit are black and white, and 0 and 1 where labels are meant") {
  const TemporaryFolder folder;
  const at::Tensor bits = rows_of({0, 1, 1, 1, 0, 0}, 3);
  const auto check = [&](const Volume& v) {
    CHECK(v.data.equal(bits * 255));
    REQUIRE(v.numbers.defined());
    CHECK(v.numbers.equal(bits));
  };
  check(read_volume(folder.write("b.png", png(3, 2, 1, 0, {0, 0x60, 0, 0x80}))));
  check(read_volume(folder.write(
      "b.bmp", bmp(1, {0, 0, 0, 0, 255, 255, 255, 0}, {0x80, 0, 0, 0, 0x60, 0, 0, 0}))));
  Tiff black, white;
  black.page(strip(black, 3, 2, {0x60, 0x80}, 1));
  check(read_volume(folder.write("b.tif", black.bytes)));
  white.page(strip(white, 3, 2, {0x80, 0x60}, 1, 0));  // 0 is white
  check(read_volume(folder.write("b.tif", white.bytes)));
  white.page(strip(white, 3, 2, {0x60, 0x80}, 1, 0));
  const Volume pages = read_volume(folder.write("b.tif", white.bytes));
  CHECK(pages.numbers.equal(at::stack({bits, 1 - bits}, 3)));
  CHECK(pages.data.equal(pages.numbers * 255));
  // Two bits are grey, as Pillow has them.
  const Volume two = read_volume(folder.write("c.png", png(4, 1, 2, 0, {0, 0x1b})));
  CHECK(two.data.equal(rows_of({0, 85, 170, 255}, 4)));
  CHECK_FALSE(two.numbers.defined());
}

TEST_CASE("A TIFF in which 0 is white comes as Pillow has it") {
  const TemporaryFolder folder;
  Tiff bytes, words;
  bytes.page(strip(bytes, 3, 2, {0, 1, 55, 200, 254, 255}, 8, 0));
  const Volume v = read_volume(folder.write("w.tif", bytes.bytes), at::kInt);
  CHECK(v.data.equal(rows_of({255, 254, 200, 55, 1, 0}, 3).to(at::kInt)));
  CHECK_FALSE(v.numbers.defined());
  words.page(strip(words, 2, 1, {1, 0, 0, 255}, 16, 0));
  CHECK(read_volume(folder.write("w.tif", words.bytes), at::kInt)
            .data.equal(rows_of({1, 65280}, 2).to(at::kInt)));
}

TEST_CASE("A palette gives colours, and its numbers where labels are meant") {
  const TemporaryFolder folder;
  const auto check = [&](const Volume& v) {
    CHECK(v.data.equal(in_colours));
    REQUIRE(v.numbers.defined());
    CHECK(v.numbers.equal(palette_numbers));
  };
  check(
      read_volume(folder.write("p.png", png(3, 2, 8, 3, {0, 0, 1, 2, 0, 2, 1, 0}, three_colours))));
  check(read_volume(folder.write(
      "t.png", png(3, 2, 8, 3, {0, 0, 1, 2, 0, 2, 1, 0}, three_colours, {0, 255, 128}))));
  check(read_volume(folder.write("p.png", png(3, 2, 2, 3, {0, 0x18, 0, 0x90}, three_colours))));
  const Bytes reversed{0, 0, 0, 0, 20, 10, 128, 0, 7, 128, 0, 0};  // blue, green, red, 0
  check(read_volume(folder.write("p.bmp", bmp(8, reversed, {2, 1, 0, 0, 0, 1, 2, 0}))));
  Tiff tiff;
  Tiff::Tags tags = strip(tiff, 3, 2, {0x18, 0x90}, 2, 3);
  tags.push_back({320, {0, 128 << 8, 0, 0, 0, 10 << 8, 128 << 8, 0, 0, 20 << 8, 7 << 8, 0}});
  tiff.page(tags);
  check(read_volume(folder.write("p.tif", tiff.bytes)));
  CHECK(message_of([&] {
          read_volume(folder.write("p.png", png(3, 1, 2, 3, {0, 0x1c}, three_colours)));
        }).find("pixels beyond its palette of 3 colours") != std::string::npos);
}

TEST_CASE("A BMP of greys is one channel") {
  const TemporaryFolder folder;
  Bytes greys;
  for (int i = 0; i < 256; ++i) append(greys, std::uint32_t(i) * 0x010101u, 4);
  const Volume v = read_volume(folder.write("g.bmp", bmp(8, greys, {9, 8, 7, 0, 200, 0, 1, 0})));
  CHECK(v.data.equal(rows_of({200, 0, 1, 9, 8, 7}, 3)));
  CHECK_FALSE(v.numbers.defined());
}

TEST_CASE("An interlaced PNG, one of 16 bits and one with transparency keep their numbers") {
  const TemporaryFolder folder;
  // Of 3 x 2 pixels the passes are (0, 0), (2, 0), (1, 0) and the second row.
  const Bytes passes{0, 10, 0, 30, 0, 20, 0, 40, 50, 60};
  CHECK(read_volume(folder.write("i.png", png(3, 2, 8, 0, passes, {}, {}, 1)))
            .data.equal(rows_of({10, 20, 30, 40, 50, 60}, 3)));
  const Volume words = read_volume(folder.write("w.png", png(2, 1, 16, 0, {0, 3, 232, 234, 96})));
  CHECK(words.data.equal(rows_of({1000, 60000}, 2)));
  CHECK(words.disk_dtype == "uint16");
  const Volume clear = read_volume(folder.write("c.png", png(2, 1, 8, 4, {0, 1, 255, 2, 0})));
  CHECK(clear.data.equal(at::cat({rows_of({1, 2}, 2), rows_of({255, 0}, 2)})));
}

TEST_CASE("A TIFF is turned as its orientation says, which its pages have in common") {
  const TemporaryFolder folder;
  const auto oriented = [&](Tiff& t, std::uint32_t orientation) {
    Tiff::Tags tags = strip(t, 3, 2, {0, 1, 2, 3, 4, 5});
    tags.insert(tags.begin() + 7, {274, {orientation}});
    t.page(tags);
  };
  // Rows of orientations 1 to 8, as Pillow 13.0 has them of a compressed file.
  const std::vector<at::Tensor> expected{
      rows_of({0, 1, 2, 3, 4, 5}, 3), rows_of({2, 1, 0, 5, 4, 3}, 3),
      rows_of({5, 4, 3, 2, 1, 0}, 3), rows_of({3, 4, 5, 0, 1, 2}, 3),
      rows_of({0, 3, 1, 4, 2, 5}, 2), rows_of({3, 0, 4, 1, 5, 2}, 2),
      rows_of({5, 2, 4, 1, 3, 0}, 2), rows_of({2, 5, 1, 4, 0, 3}, 2)};
  for (std::uint32_t n = 1; n <= 8; ++n) {
    CAPTURE(n);
    Tiff tiff;
    oriented(tiff, n);
    CHECK(read_volume(folder.write("o.tif", tiff.bytes)).data.equal(expected[n - 1]));
  }
  Tiff pages;
  oriented(pages, 6);
  oriented(pages, 6);
  CHECK(read_volume(folder.write("p.tif", pages.bytes))
            .data.equal(at::stack({expected[5], expected[5]}, 3)));
  oriented(pages, 1);
  const std::string why = message_of([&] { read_volume(folder.write("p.tif", pages.bytes)); });
  CHECK(why.find("the first 3 x 2 pixels of 1 times 8 bits in orientation 6") != why.npos);
}

TEST_CASE("A CMYK JPEG is called one") {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "c.jpg", jpeg_of(8, 8, 4, 90, [](int x, int y, int c) { return std::uint8_t(x * y + c); }));
  CHECK(message_of([&] { read_volume(file); }).find("is a CMYK JPEG") != std::string::npos);
}
