// Slides: what write_slide() writes is what readers read, ours and OpenSlide's; what is damaged or
// hostile is refused by name.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <tiffio.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "kernels/files/slide.h"
#include "tests/campaign.h"
#include "tests/temporary_folder.h"
#include "tests/vast_slide.h"

using namespace sluice;

namespace {

// Smooth colours, of which JPEG loses little.
at::Tensor picture(std::int64_t rows, std::int64_t columns, std::int64_t channels = 3) {
  at::Tensor t = at::empty({rows, columns, channels}, at::kByte);
  auto* v = t.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t x = 0; x < columns; ++x)
      for (std::int64_t c = 0; c < channels; ++c)
        *v++ = static_cast<std::uint8_t>(
            std::lround(128 + 100 * std::sin(0.02 * static_cast<double>(x + 31 * c)) *
                                  std::cos(0.015 * static_cast<double>(y))));
  return t;
}

void write(const std::filesystem::path& path, const at::Tensor& pixels, const SlideFormat& format) {
  write_slide(path, pixels.size(0), pixels.size(1), pixels.size(2), format,
              [&](std::int64_t top, std::int64_t rows, std::uint8_t* to) {
                const at::Tensor part = pixels.narrow(0, top, rows).contiguous();
                std::memcpy(to, part.const_data_ptr(), part.nbytes());
              });
}

// Each level of the one before it, rounded half to even as torch does.
at::Tensor halved(const at::Tensor& t) {
  const std::int64_t h = t.size(0) / 2, w = t.size(1) / 2;
  return t.narrow(0, 0, 2 * h)
      .narrow(1, 0, 2 * w)
      .to(at::kDouble)
      .view({h, 2, w, 2, t.size(2)})
      .mean(at::IntArrayRef{1, 3})
      .round()
      .to(at::kByte);
}

std::string path_in(const TemporaryFolder& folder, const std::string& name) {
  return (folder / name).string();
}

int difference(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kInt).sub(b.to(at::kInt)).abs().max().item<int>();
}

// A file of one or more pages by libtiff, each changed by `tags` before its tiles are written.
void write_page(const std::string& path, const std::function<void(TIFF*)>& tags, bool tiled = true,
                const char* mode = "w") {
  TIFF* t = TIFFOpen(path.c_str(), mode);
  REQUIRE(t);
  TIFFSetField(t, TIFFTAG_IMAGEWIDTH, 64);
  TIFFSetField(t, TIFFTAG_IMAGELENGTH, 64);
  TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 3);
  TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
  TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
  TIFFSetField(t, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  if (tiled) {
    TIFFSetField(t, TIFFTAG_TILEWIDTH, 64);
    TIFFSetField(t, TIFFTAG_TILELENGTH, 64);
  } else {
    TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, 64);
  }
  tags(t);
  std::vector<std::uint8_t> zeros(64 * 64 * 8);
  if (tiled)
    for (std::uint32_t n = 0; n < TIFFNumberOfTiles(t); ++n)
      TIFFWriteEncodedTile(t, n, zeros.data(), TIFFTileSize(t));
  else
    for (std::uint32_t n = 0; n < TIFFNumberOfStrips(t); ++n)
      TIFFWriteEncodedStrip(t, n, zeros.data(), TIFFStripSize(t));
  TIFFClose(t);
}

std::string refusal(const std::string& path, std::int64_t level = 0) {
  return message_of([&] {
    SlideReader reader;
    const auto slide = reader.open(path);
    slide->read(level, 0, 0, slide->level(level).rows, slide->level(level).columns, 0);
  });
}

// A classic TIFF of one directory, given byte by byte: entries are {tag, type, count, value}.
Bytes one_directory(const std::vector<std::array<std::uint32_t, 4>>& entries, std::uint32_t next,
                    std::size_t length = 4096) {
  Bytes b(length);
  const auto put = [&](std::size_t at, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      b[at + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value >> (8 * i));
  };
  b[0] = b[1] = 'I';
  put(2, 42, 2);
  put(4, 8, 4);
  put(8, entries.size(), 2);
  std::size_t at = 10;
  for (const auto& [tag, type, count, value] : entries) {
    put(at, tag, 2);
    put(at + 2, type, 2);
    put(at + 4, count, 4);
    put(at + 8, value, 4);
    at += 12;
  }
  put(at, next, 4);
  return b;
}

std::vector<std::array<std::uint32_t, 4>> grey_page(std::uint32_t size, std::uint32_t tile,
                                                    std::uint32_t tiles, std::uint32_t at) {
  constexpr std::uint32_t half = 3, word = 4;
  return {{256, word, 1, size},   {257, word, 1, size},
          {258, half, 1, 8},      {259, half, 1, 1},
          {262, half, 1, 1},      {277, half, 1, 1},
          {322, word, 1, tile},   {323, word, 1, tile},
          {324, word, tiles, at}, {325, word, tiles, tiles == 1 ? tile * tile : at}};
}

}  // namespace

TEST_CASE("a slide is a BigTIFF where its tiles, whole at the edges too, may need one") {
  CHECK_FALSE(needs_big_tiff(20000, 20000, 3, {}));
  CHECK(needs_big_tiff(30000, 30000, 3, {}));
  CHECK_FALSE(needs_big_tiff(100, 100000, 3, {.levels = 1}));
  CHECK(needs_big_tiff(100, 100000, 3, {.tile = 16384, .levels = 1}));  // 30 MB of 5.6 GB
  CHECK_FALSE(needs_big_tiff(100, 100000, 1, {.tile = 16384, .levels = 1}));
  CHECK(needs_big_tiff(100, 100000, 1, {.tile = 16384, .levels = 4}));  // each level's tiles
}

TEST_CASE("a slide is written and read at every level, to the bit without loss") {
  TemporaryFolder folder;
  for (const char* compression : {"none", "lzw", "deflate"})
    for (const std::int64_t channels : {1, 3}) {
      CAPTURE(compression);
      at::Tensor pixels = picture(301, 437, channels);
      const std::string path = path_in(folder, "s.tif");
      write(path, pixels, {.tile = 64, .levels = 4, .compression = compression, .mpp = 0.5});
      SlideReader reader;
      const auto slide = reader.open(path);
      REQUIRE(slide->levels().size() == 4);
      CHECK(slide->channels() == channels);
      CHECK(*slide->mpp() == doctest::Approx(0.5));
      CHECK(slide->level_at(1.02) == 1);
      for (std::int64_t l = 0; l < 4; ++l) {
        CHECK(slide->level(l).rows == pixels.size(0));
        CHECK(slide->level(l).downsample == doctest::Approx(1 << l).epsilon(0.02));
        CHECK(at::equal(slide->read(l, 0, 0, pixels.size(0), pixels.size(1), 0), pixels));
        pixels = halved(pixels);
      }
      CHECK(folder.files() == 1);
    }
}

TEST_CASE("a region may lie anywhere, and what is outside of the slide has one colour") {
  TemporaryFolder folder;
  const at::Tensor pixels = picture(100, 150), far = at::full({300, 350, 3}, 7, at::kByte);
  far.narrow(0, 100, 100).narrow(1, 100, 150).copy_(pixels);
  write(folder / "s.tif", pixels, {.tile = 32, .compression = "deflate"});
  SlideReader reader;
  const auto slide = reader.open(path_in(folder, "s.tif"));
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const auto y = static_cast<std::int64_t>(random() % 250),
               x = static_cast<std::int64_t>(random() % 300);
    const auto h = static_cast<std::int64_t>(1 + random() % 50),
               w = static_cast<std::int64_t>(1 + random() % 50);
    CHECK(
        at::equal(slide->read(0, y - 100, x - 100, h, w, 7), far.narrow(0, y, h).narrow(1, x, w)));
  }
  // At level 1 a place is rounded to that level's pixels, half to even.
  const at::Tensor half = halved(pixels);
  CHECK(at::equal(slide->read(1, 2, 7, 5, 6, 0), half.narrow(0, 1, 5).narrow(1, 4, 6)));
  CHECK(at::equal(slide->read(1, 5, 6, 5, 6, 0), half.narrow(0, 2, 5).narrow(1, 3, 6)));
}

TEST_CASE("JPEG tiles are close to what was written, and OpenSlide reads the same pixels") {
  TemporaryFolder folder;
  const at::Tensor pixels = picture(301, 437);
  const std::string path = path_in(folder, "s.tif");
  write(path, pixels, {.tile = 128, .levels = 3, .quality = 95, .mpp = 0.25});
  SlideReader ours;
  const auto slide = ours.open(path);
  CHECK(difference(slide->read(0, 0, 0, 301, 437, 0), pixels) <= 12);
  CHECK(difference(slide->read(1, 0, 0, 150, 218, 0), halved(pixels)) <= 12);
  if (!::dlopen("libopenslide.so.0", RTLD_NOW) && !::dlopen("libopenslide.so.1", RTLD_NOW)) {
    CHECK(contains(message_of([&] { SlideReader("openslide").open(path); }),
                   "apt install libopenslide0"));
    MESSAGE("no OpenSlide here: not compared");
    return;
  }
  SlideReader theirs("openslide");
  const auto other = theirs.open(path);
  REQUIRE(other->levels().size() == 3);
  CHECK(*other->mpp() == doctest::Approx(0.25));
  for (std::int64_t l = 0; l < 3; ++l) {
    CHECK(other->level(l).downsample == doctest::Approx(slide->level(l).downsample));
    const std::int64_t h = slide->level(l).rows, w = slide->level(l).columns;
    CHECK(difference(slide->read(l, 0, 0, h, w, 0), other->read(l, 0, 0, h, w, 0)) <= 1);
  }
  CHECK(difference(slide->read(0, -20, 400, 60, 60, 200), other->read(0, -20, 400, 60, 60, 200)) <=
        1);
  CHECK(contains(message_of([&] { theirs.open(path_in(folder, "no.svs")); }), "no.svs"));
}

TEST_CASE("a slide that was cut anywhere is refused, or gives what it gave") {
  TemporaryFolder folder;
  const at::Tensor pixels = picture(200, 200);
  for (const char* compression : {"jpeg", "lzw", "none"}) {
    CAPTURE(compression);
    write(folder / "s.tif", pixels, {.tile = 64, .levels = 2, .compression = compression});
    SlideReader reader;
    const at::Tensor whole = reader.open(path_in(folder, "s.tif"))->read(0, 0, 0, 200, 200, 0);
    const Bytes bytes = bytes_of(folder / "s.tif");
    int refused = 0;
    for (int i = 0; i < 60; ++i) {
      const std::size_t length = bytes.size() * static_cast<std::size_t>(i) / 60;
      const std::string path =
          folder.write("cut.tif", Bytes(bytes.begin(), bytes.begin() + static_cast<long>(length)))
              .string();
      at::Tensor got;
      const std::string why =
          message_of([&] { got = SlideReader().open(path)->read(0, 0, 0, 200, 200, 0); });
      if (!why.empty()) {
        CHECK(contains(why, "cut.tif"));
        ++refused;
      } else {
        CHECK(at::equal(got, whole));
      }
    }
    CHECK(refused >= 50);  // the directory of level 0 stands behind its tiles
  }
}

TEST_CASE("a JPEG tile that ends early is named, and other tiles can be read") {
  TemporaryFolder folder;
  write(folder / "s.tif", picture(128, 192), {.tile = 64, .levels = 1});
  const std::string from = path_in(folder, "s.tif"), to = path_in(folder, "short.tif");
  TIFF *in = TIFFOpen(from.c_str(), "r"), *out = TIFFOpen(to.c_str(), "w");
  for (const std::uint32_t tag : {256, 257, 322, 323}) {
    std::uint32_t value = 0;
    TIFFGetField(in, tag, &value);
    TIFFSetField(out, tag, value);
  }
  for (const std::uint32_t tag : {258, 259, 262, 277, 284}) {
    std::uint16_t value = 0;
    TIFFGetField(in, tag, &value);
    TIFFSetField(out, tag, static_cast<int>(value));
  }
  std::uint32_t count = 0;
  void* tables = nullptr;
  REQUIRE(TIFFGetField(in, TIFFTAG_JPEGTABLES, &count, &tables) == 1);
  TIFFSetField(out, TIFFTAG_JPEGTABLES, count, tables);
  for (std::uint32_t n = 0; n < 6; ++n) {
    Bytes raw(1 << 16);
    const tmsize_t size = TIFFReadRawTile(in, n, raw.data(), std::ssize(raw));
    TIFFWriteRawTile(out, n, raw.data(), n == 4 ? size * 2 / 3 : size);
  }
  TIFFClose(in);
  TIFFClose(out);
  SlideReader reader;
  const auto slide = reader.open(to);
  CHECK(slide->read(0, 0, 0, 64, 192, 0).numel() > 0);
  for (int i = 0; i < 2; ++i) {  // the second time, too: a failure is not kept
    const std::string why = message_of([&] { slide->read(0, 0, 0, 128, 192, 0); });
    CHECK(contains(why, "short.tif: level 0, tile 4 (row 1, column 1) is damaged: "));
    CHECK(contains(why, "remature end"));
  }
  CHECK(slide->read(0, 64, 128, 64, 64, 0).numel() > 0);
}

TEST_CASE("pages that are no slide are refused, with what they are") {
  TemporaryFolder folder;
  const std::string path = path_in(folder, "x.tif");
  const auto of = [&](const std::function<void(TIFF*)>& tags, bool tiled = true) {
    write_page(path, tags, tiled);
    return refusal(path);
  };
  CHECK(of([](TIFF*) {}) == "");
  CHECK(contains(of([](TIFF*) {}, false), "x.tif: page 0 is stored in strips"));
  CHECK(contains(of([](TIFF* t) { TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 16); }),
                 "16 bits a sample"));
  CHECK(contains(of([](TIFF* t) { TIFFSetField(t, TIFFTAG_PLANARCONFIG, PLANARCONFIG_SEPARATE); }),
                 "separate planes"));
  CHECK(contains(of([](TIFF* t) {
                   TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 4);
                   TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_SEPARATED);
                 }),
                 "4 channels of photometric interpretation 5"));
  CHECK(contains(of([](TIFF* t) { TIFFSetField(t, TIFFTAG_COMPRESSION, COMPRESSION_PACKBITS); }),
                 "compression 32773"));
  CHECK(contains(refusal(path, 9), "compression"));
  CHECK(of([](TIFF*) {}) == "");
  CHECK(contains(refusal(path, 9), "has no level 9; its levels are 0 to 0"));
  CHECK(contains(message_of([&] { SlideReader().open(path)->level_at(0.5); }), "does not say"));
  CHECK(contains(refusal(path_in(folder, "none.tif")), "none.tif: No such file"));
  folder.write_text("text.tif", "this is no picture");
  CHECK(contains(refusal(path_in(folder, "text.tif")), "text.tif: is no TIFF file"));
}

TEST_CASE("headers that lie are refused before memory is taken") {
  TemporaryFolder folder;
  const auto of = [&](const Bytes& bytes) {
    return refusal(folder.write("x.tif", bytes).string());
  };
  CHECK(of(one_directory(grey_page(32, 32, 1, 512), 0)) == "");
  CHECK(contains(of(one_directory(grey_page(32, 32, 1, 512), 8)),
                 "page 1 cannot be read"));  // itself
  CHECK(contains(of(one_directory(grey_page(32, 32, 1, 512), 100000)), "page 1 cannot be read"));
  CHECK(contains(of(one_directory(grey_page(32, 32, 1, 100000), 0)), "tile 0"));

  CHECK(
      contains(of(one_directory(grey_page(0xffffffff, 16, 4096, 512), 0)), "zero number of tiles"));
  CHECK(contains(of(one_directory(grey_page(1 << 18, 16, 1 << 28, 512), 0)), "tiles; at most"));
  CHECK(contains(of(one_directory(grey_page(1 << 16, 1 << 16, 1, 512), 0)),
                 "tiles of 65536 x 65536"));
  CHECK(contains(of(one_directory(grey_page(0, 32, 1, 512), 0)), "x.tif"));
  // A table of a million tiles in a file that ends long before.
  CHECK(contains(of(one_directory(grey_page(1 << 14, 16, 1 << 20, 512), 0)), "x.tif"));
}

TEST_CASE("few slides are open at a time, however many are read") {
  TemporaryFolder folder;
  for (int i = 0; i < 40; ++i)
    write(folder / ("s" + std::to_string(i) + ".tif"), at::full({20, 20, 1}, i, at::kByte),
          {.tile = 16, .levels = 1, .compression = "none"});
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  SlideReader reader("auto", 1 << 20, 8);
  const auto before = descriptors();
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 40; ++i)
      CHECK(reader.open(path_in(folder, "s" + std::to_string(i) + ".tif"))
                ->read(0, 3, 3, 1, 1, 0)
                .item<int>() == i);
  CHECK(descriptors() - before <= 8);
}

TEST_CASE("threads that read one slide at once get what one gets, with a cache of a few tiles") {
  TemporaryFolder folder;
  const at::Tensor pixels = picture(400, 400);
  write(folder / "s.tif", pixels, {.tile = 32, .levels = 2, .compression = "deflate"});
  const at::Tensor half = halved(pixels);
  SlideReader reader("auto", 40 << 10);
  const auto slide = reader.open(path_in(folder, "s.tif"));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 60; ++i) {
        const auto y = static_cast<std::int64_t>(random() % 150),
                   x = static_cast<std::int64_t>(random() % 150);
        const bool level = random() % 2;
        const at::Tensor got = slide->read(level, level ? 2 * y : y, level ? 2 * x : x, 40, 40, 0);
        wrong += !at::equal(got, (level ? half : pixels).narrow(0, y, 40).narrow(1, x, 40));
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a slide of 4.3 gigapixels is read by regions, in the memory of its tile cache") {
  // SLUICE_LONG=1: all of it, row by row, 12.9 GB.
  TemporaryFolder folder;
  const VastSlide vast{65536};
  vast.write(folder / "vast.tif");
  CHECK(std::filesystem::file_size(folder / "vast.tif") < 16 << 20);
  const auto resident = [] {
    std::int64_t all = 0, here = 0;
    std::ifstream("/proc/self/statm") >> all >> here;
    return here * 4096;
  };
  constexpr std::int64_t budget = 32 << 20, side = 700;
  SlideReader reader("auto", budget);
  const auto slide = reader.open(path_in(folder, "vast.tif"));
  REQUIRE(slide->level(0).rows == 65536);
  std::mt19937 random(1);
  std::int64_t most = 0, wrong = 0;
  const auto read = [&](std::int64_t y, std::int64_t x) {
    const at::Tensor got = slide->read(0, y, x, side, side, 0);
    for (const std::int64_t v : {std::int64_t{0}, side / 2, side - 1})
      for (const std::int64_t u : {std::int64_t{0}, side / 2, side - 1})
        for (int c = 0; c < 3; ++c)
          wrong +=
              y + v < 65536 && x + u < 65536 &&
              got[v][u][c].item<int>() != vast.pixel(y + v, x + u)[static_cast<std::size_t>(c)];
  };
  const auto anywhere = [&] { return static_cast<std::int64_t>(random() % (65536 - side)); };
  for (int i = 0; i < 40; ++i) read(anywhere(), anywhere());  // the heap finds its size
  const std::int64_t before = resident();
  const auto watch = [&] { most = std::max(most, resident() - before); };
  if (campaign::at_length()) {
    for (std::int64_t y = 0; y < 65536; y += side)
      for (std::int64_t x = 0; x < 65536; x += side, watch()) read(y, x);
  } else {
    for (int i = 0; i < 100; ++i, watch()) read(anywhere(), anywhere());
  }
  CHECK(wrong == 0);
  CHECK(most < budget);
}
