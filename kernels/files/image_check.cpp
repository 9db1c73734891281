#include "kernels/files/image_check.h"

#include <libdeflate.h>

#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"
#include "kernels/files/gzip.h"

namespace sluice {
namespace {

using Bytes = std::span<const std::uint8_t>;

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

// What libpng takes.
bool png_header_can_be(const std::uint8_t* header, std::uint64_t width, std::uint64_t height) {
  constexpr std::uint64_t most = 1'000'000;  // libpng's own limit
  const int depth = header[8], colour = header[9];
  const bool byte_depth = depth == 8 || depth == 16,
             bit_depth = depth == 1 || depth == 2 || depth == 4;
  const bool fits = colour == 0   ? byte_depth || bit_depth
                    : colour == 3 ? depth == 8 || bit_depth
                                  : (colour == 2 || colour == 4 || colour == 6) && byte_depth;
  return fits && width >= 1 && width <= most && height >= 1 && height <= most && header[10] == 0 &&
         header[11] == 0 && header[12] <= 1;
}

// Bytes of an image's filtered rows; an interlaced one (Adam7) is seven smaller images.
std::uint64_t png_bytes(const std::uint8_t* header, const std::string& name) {
  const std::uint64_t width = big_endian(header), height = big_endian(header + 4);
  const int depth = header[8], colour = header[9];
  const int samples = colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1;
  if (!png_header_can_be(header, width, height)) fail(name, "has a PNG header that cannot be true");
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

void check_png(Bytes file, const std::string& name) {
  constexpr std::uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (file.size() < 8 || !std::equal(signature, signature + 8, file.begin()))
    fail(name, "is no PNG file");
  std::vector<std::uint8_t> data;
  std::uint64_t expected = 0;
  std::string type, before;
  bool palette = false;  // is needed and has not come
  // Chunks that a decoder must know, and their order.
  const auto check_order = [&](const std::string& chunk, std::uint64_t length) {
    const bool known = chunk == "IHDR" || chunk == "PLTE" || chunk == "IDAT" || chunk == "IEND";
    const bool again = !data.empty() && before != "IDAT" && chunk == "IDAT";
    if ((!known && (chunk[0] & 0x20) == 0) || again)
      fail(name, "has a PNG chunk " + chunk + " that cannot stand there");
    if (chunk == "PLTE" && (length == 0 || length > 768 || length % 3 != 0 || !data.empty()))
      fail(name, "has a PNG palette that cannot be true");
    if (chunk == "PLTE") palette = false;
    if (chunk == "IDAT" && palette) fail(name, "has no PNG palette");
    before = chunk;
  };
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
    if (type == "IHDR") expected = png_bytes(body, name), palette = body[9] == 3;
    check_order(type, length);
    if (type == "IDAT") data.insert(data.end(), body, body + length);
    at += length + 12;
    if (type == "IEND" && at != file.size()) fail(name, "has bytes after the PNG's end");
  }
  inflate_zlib(data, expected, name);
}

}  // namespace sluice
