// The checks of BMP and TIFF (image_check.h).
#include <algorithm>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/files/gzip.h"
#include "kernels/files/image_check.h"

namespace sluice {
namespace {

using View = std::span<const std::uint8_t>;

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw DataError(name + ": " + why);
}

// Numbers of a file, of either byte order; a place beyond its end is the file's fault.
class Numbers {
 public:
  Numbers(View file, const std::string& name, const char* format)
      : file_(file), name_(name), format_(format) {}
  std::uint64_t at(std::uint64_t place, int bytes) const {
    if (place + static_cast<std::uint64_t>(bytes) > file_.size())
      fail(name_, std::string(format_) + " ends early");
    std::uint64_t n = 0;
    for (int i = 0; i < bytes; ++i)
      n |= std::uint64_t{file_[place + static_cast<std::uint64_t>(i)]}
           << 8 * (big_ ? bytes - 1 - i : i);
    return n;
  }
  void set_big(bool big) { big_ = big; }

 private:
  View file_;
  const std::string& name_;
  const char* format_;
  bool big_ = false;
};

// The tags of the first directory of a TIFF file that a check needs.
struct TiffImage {
  std::uint64_t width = 0, height = 0, samples = 1, compression = 1;
  std::vector<std::uint64_t> bits, offsets, counts;
};

TiffImage first_image(const Numbers& file) {
  TiffImage image;
  const std::uint64_t directory = file.at(4, 4), entries = file.at(directory, 2);
  for (std::uint64_t e = 0; e < entries; ++e) {
    const std::uint64_t place = directory + 2 + 12 * e, tag = file.at(place, 2);
    const int size = file.at(place + 2, 2) == 3 ? 2 : 4;  // SHORT or LONG
    const std::uint64_t n = file.at(place + 4, 4);
    const std::uint64_t from =
        n * static_cast<std::uint64_t>(size) <= 4 ? place + 8 : file.at(place + 8, 4);
    const auto values = [&] {
      std::vector<std::uint64_t> all;
      for (std::uint64_t i = 0; i < n; ++i)
        all.push_back(file.at(from + i * static_cast<std::uint64_t>(size), size));
      return all;
    };
    if (tag == 256) image.width = file.at(from, size);
    if (tag == 257) image.height = file.at(from, size);
    if (tag == 258) image.bits = values();
    if (tag == 259) image.compression = file.at(from, size);
    if (tag == 277) image.samples = file.at(from, size);
    if (tag == 273 || tag == 324) image.offsets = values();
    if (tag == 279 || tag == 325) image.counts = values();
  }
  return image;
}

// Directories that name each other in a circle would be read for ever.
void require_end(const Numbers& file, const std::string& name) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t at = file.at(4, 4); at != 0;) {
    if (!seen.insert(at).second) fail(name, "TIFF's directories name each other in a circle");
    at = file.at(at + 2 + 12 * file.at(at, 2), 4);
  }
}

}  // namespace

void check_bmp(View file, const std::string& name) {
  if (file.size() < 2 || file[0] != 'B' || file[1] != 'M') fail(name, "is no BMP file");
  const Numbers numbers(file, name, "BMP");
  const std::uint64_t first = numbers.at(10, 4), bits = numbers.at(28, 2);
  const std::int64_t width = static_cast<std::int32_t>(numbers.at(18, 4));
  const std::int64_t height =
      std::abs(static_cast<std::int64_t>(static_cast<std::int32_t>(numbers.at(22, 4))));
  if (numbers.at(14, 4) < 40) fail(name, "BMP has a header of OS/2");
  if (numbers.at(30, 4) != 0) fail(name, "BMP is compressed");
  if (bits != 8 && bits != 24 && bits != 32)
    fail(name, "BMP has " + std::to_string(bits) + " bits a pixel; 8, 24 and 32 are read");
  if (width <= 0 || height == 0) fail(name, "BMP has no pixels");
  const std::uint64_t row = (static_cast<std::uint64_t>(width) * bits + 31) / 32 * 4;
  if (first > file.size() || row * static_cast<std::uint64_t>(height) > file.size() - first)
    fail(name, "BMP ends early");
}

void check_tiff(View file, const std::string& name) {
  Numbers numbers(file, name, "TIFF");
  if (file.size() < 8 || (file[0] != 'I' && file[0] != 'M') || file[0] != file[1])
    fail(name, "is no TIFF file");
  numbers.set_big(file[0] == 'M');
  if (numbers.at(2, 2) != 42) fail(name, "is no TIFF file");  // BigTIFF has 43
  const TiffImage image = first_image(numbers);
  const std::uint64_t each = image.bits.empty() ? 1 : (image.bits[0] + 7) / 8;
  constexpr std::uint64_t most = 1u << 20;
  if (image.width == 0 || image.height == 0) fail(name, "TIFF has no pixels");
  if (image.width > most || image.height > most || image.samples > 16 || each > 8 ||
      image.width * image.height * image.samples * each > max_volume_bytes)
    fail(name, "TIFF declares more than " + with_commas(max_volume_bytes) + " bytes of pixels");
  if (image.offsets.empty() || image.offsets.size() != image.counts.size())
    fail(name, "TIFF does not say where its pixels are");
  for (std::size_t i = 0; i < image.offsets.size(); ++i)
    if (image.offsets[i] > file.size() || image.counts[i] > file.size() - image.offsets[i])
      fail(name, "TIFF ends early");
  require_end(numbers, name);
  constexpr std::uint64_t deflate = 8, old_deflate = 32946;
  if (image.compression == deflate || image.compression == old_deflate)
    for (std::size_t i = 0; i < image.offsets.size(); ++i)
      check_zlib(file.subspan(image.offsets[i], image.counts[i]), max_volume_bytes, name);
}

}  // namespace sluice
