#include "kernels/image_check.h"

#include <libdeflate.h>

#include <algorithm>
#include <vector>

#include "engine/error.h"
#include "kernels/file_io.h"
#include "kernels/gzip.h"

namespace sluice {
namespace {

using View = std::span<const std::uint8_t>;

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw DataError(name + ": " + why);
}

// a * b, refused above the volume limit.
std::uint64_t product(std::uint64_t a, std::uint64_t b, const std::string& name) {
  if (a != 0 && b > max_volume_bytes / a)
    fail(name, "declares more than " + with_commas(max_volume_bytes) + " bytes of voxels");
  return a * b;
}

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

// Bytes of an image's filtered rows; an interlaced one (Adam7) is seven smaller images.
std::uint64_t png_bytes(const std::uint8_t* header, const std::string& name) {
  const std::uint64_t width = big_endian(header), height = big_endian(header + 4);
  const int depth = header[8], colour = header[9];
  const int samples = colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1;
  if (width < 1 || height < 1 || depth < 1 || depth > 16 || header[12] > 1)
    fail(name, "has a PNG header that cannot be true");
  const auto rows = [&](std::uint64_t w, std::uint64_t h) {
    if (w == 0 || h == 0) return std::uint64_t{0};
    return product(h, 1 + (product(w, static_cast<std::uint64_t>(depth * samples), name) + 7) / 8,
                   name);
  };
  if (header[12] == 0) return rows(width, height);
  constexpr std::uint64_t adam7[7][4] = {{0, 8, 0, 8}, {4, 8, 0, 8}, {0, 4, 4, 8}, {2, 4, 0, 4},
                                         {0, 2, 2, 4}, {1, 2, 0, 2}, {0, 1, 1, 2}};
  std::uint64_t total = 0;
  for (const auto& [x0, dx, y0, dy] : adam7)
    total += rows(width > x0 ? (width - x0 + dx - 1) / dx : 0,
                  height > y0 ? (height - y0 + dy - 1) / dy : 0);
  return total;
}

}  // namespace

void check_png(View file, const std::string& name) {
  constexpr std::uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (file.size() < 8 || !std::equal(signature, signature + 8, file.begin()))
    fail(name, "is no PNG file");
  std::vector<std::uint8_t> data;
  std::uint64_t expected = 0;
  std::string type;
  for (std::size_t at = 8; type != "IEND";) {
    if (file.size() - at < 12) fail(name, "PNG ends early: no IEND");
    const std::uint64_t length = big_endian(&file[at]);
    if (length > file.size() - at - 12) fail(name, "PNG ends early inside a chunk");
    type.assign(file.begin() + long(at) + 4, file.begin() + long(at) + 8);
    const auto* body = file.data() + at + 8;
    if (libdeflate_crc32(0, body - 4, length + 4) != big_endian(body + length))
      fail(name, "bad PNG checksum in chunk " + type);
    if ((at == 8) != (type == "IHDR") || (type == "IHDR" && length != 13))
      fail(name, "PNG does not begin with one IHDR");
    if (type == "IHDR") expected = png_bytes(body, name);
    if (type == "IDAT") data.insert(data.end(), body, body + length);
    at += length + 12;
    if (type == "IEND" && at != file.size()) fail(name, "has bytes after the PNG's end");
  }
  inflate_zlib(data, expected, name);
}

}  // namespace sluice
