// Good files to damage: small volumes of each kind that the readers know.
#include <ATen/Functions.h>

#include <cstring>

#include "engine/base/random.h"
#include "kernels/files/gzip.h"
#include "kernels/files/nifti.h"
#include "kernels/files/npy.h"
#include "kernels/files/png.h"
#include "tests/gzipped.h"
#include "tests/kernels/damage.h"
#include "tests/picture_bytes.h"
#include "tests/zlib_bytes.h"

namespace sluice {
namespace {

constexpr std::int64_t nx = 12, ny = 10, nz = 8;
const Matrix4 affine{-1, 0.1, 0, 5, 0.1, 1, 0, -6, 0, 0, 2, 7, 0, 0, 0, 1};

at::Tensor ramp(std::vector<std::int64_t> shape) {
  std::int64_t n = 1;
  for (const auto size : shape) n *= size;
  return at::arange(n, at::kFloat).mul(37).remainder(211).view(shape);
}

Bytes nifti(const at::Tensor& data, const std::string& dtype) {
  const TemporaryFolder folder;
  write_nifti(folder / "a.nii", data, affine, dtype);
  return bytes_of(folder / "a.nii");
}

template <class T>
void put(Bytes& bytes, std::size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

template <class T>
void put_big(Bytes& bytes, std::size_t at, T value) {
  put(bytes, at, value);
  std::reverse(bytes.begin() + long(at), bytes.begin() + long(at + sizeof value));
}

// A slope, and 16 bytes of extension before the voxels.
Bytes scaled_nifti() {
  Bytes bytes = nifti(ramp({nx, ny, nz}), "int16");
  put(bytes, 108, 368.0f);
  put(bytes, 112, 0.5f);
  put(bytes, 116, -3.0f);
  put(bytes, 348, std::int32_t{1});
  Bytes extension(16);
  put(extension, 0, std::int32_t{16});
  put(extension, 4, std::int32_t{6});
  bytes.insert(bytes.begin() + 352, extension.begin(), extension.end());
  return bytes;
}

// NIfTI-2, big endian, float64.
Bytes second_nifti() {
  Bytes b(544 + 8 * std::size_t(nx * ny * nz));
  put_big(b, 0, std::int32_t{540});
  std::memcpy(&b[4], "n+2\0\r\n\032\n", 8);
  put_big(b, 12, std::int16_t{64});
  put_big(b, 14, std::int16_t{64});
  const std::int64_t dim[] = {3, nx, ny, nz, 1, 1, 1, 1};
  for (std::size_t i = 0; i < 8; ++i) put_big(b, 16 + 8 * i, dim[i]);
  for (std::size_t i = 0; i < 8; ++i) put_big(b, 104 + 8 * i, 1.0);
  put_big(b, 168, std::int64_t{544});
  put_big(b, 344, std::int32_t{1});
  put_big(b, 348, std::int32_t{0});
  for (std::size_t i = 0; i < 3; ++i) put_big(b, 376 + 8 * i, 4.0 + double(i));
  for (std::size_t i = 0; i < std::size_t(nx * ny * nz); ++i)
    put_big(b, 544 + 8 * i, double(i * 37 % 211));
  return b;
}

// The same voxels as the files above, int16, X fastest.
Bytes voxels() {
  const Bytes file = nifti(ramp({nx, ny, nz}), "int16");
  return Bytes(file.begin() + 352, file.end());
}

Bytes operator+(const std::string& head, const Bytes& tail) {
  Bytes all(head.begin(), head.end());
  all.insert(all.end(), tail.begin(), tail.end());
  return all;
}

std::string nrrd_header(const std::string& encoding, const std::string& space) {
  return "NRRD0004\n# a base\ntype: short\ndimension: 3\nspace: " + space +
         "\nsizes: 12 10 8\nspace directions: (1,0.1,0) (0.1,2,0) (0,0,3)\n"
         "kinds: domain domain domain\nendian: little\nencoding: " +
         encoding + "\nspace origin: (10,-20,30.5)\n\n";
}

std::string mha_header(bool compressed, std::size_t size) {
  return "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
         "CompressedData = " +
         std::string(compressed ? "True" : "False") +
         (compressed ? "\nCompressedDataSize = " + std::to_string(size) : "") +
         "\nTransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 10 -20 30.5\nElementSpacing = 1 2 3\n"
         "DimSize = 12 10 8\nElementType = MET_SHORT\nElementDataFile = LOCAL\n";
}

Base base(const std::string& format, Bytes bytes, std::size_t header, bool checksum = false) {
  Base b;
  b.format = format;
  b.extension = format.substr(0, format.find(' '));
  b.bytes = std::move(bytes);
  b.header = header;
  b.checksum = checksum;
  b.nifti = b.extension.starts_with(".nii");
  const TemporaryFolder folder;
  b.volume = read_any(b.extension, b.bytes, folder / ("base" + b.extension));
  return b;
}

// ---- pictures -----------------------------------------------------------------------------------

Bytes png() {
  Picture picture(24, 18);
  for (int y = 0; y < 18; ++y)
    for (int x = 0; x < 24; ++x)
      picture.at(x, y) = {std::uint8_t(x * 10), std::uint8_t(y * 13), std::uint8_t(x * y)};
  const std::string bytes = encode_png(picture);
  return Bytes(bytes.begin(), bytes.end());
}

Bytes jpeg() {
  return jpeg_of(24, 24, 3, 75, [](int x, int y, int c) {
    return std::uint8_t(((3 * x + c) * 7 + y * 11) % 256);
  });
}

// 16 x 12, 24 bits a pixel.
Bytes bmp() {
  Bytes b{'B', 'M'};
  for (const std::uint32_t n : {54u + 16 * 12 * 3, 0u, 54u, 40u, 16u, 12u}) append(b, n, 4);
  append(b, 1, 2);
  append(b, 24, 2);
  for (const std::uint32_t n : {0u, 16u * 12 * 3, 0u, 0u, 0u, 0u}) append(b, n, 4);
  for (std::uint32_t i = 0; i < 16 * 12 * 3; ++i) append(b, i * 7, 1);
  return b;
}

// 16 x 12, grey, 8 bits, one strip after the directory; compression 1 (none) or 8 (deflate).
Bytes tiff(std::uint32_t compression) {
  Bytes pixels;
  for (std::uint32_t i = 0; i < 16 * 12; ++i) append(pixels, static_cast<std::uint32_t>(mix(i)), 1);
  if (compression == 8) pixels = zlib_bytes(pixels);
  Bytes b{'I', 'I', 42, 0, 8, 0, 0, 0};
  const std::uint32_t tags[][2] = {
      {256, 16},          {257, 12}, {258, 8},
      {259, compression}, {262, 1},  {273, 122},
      {277, 1},           {278, 12}, {279, std::uint32_t(pixels.size())}};
  append(b, 9, 2);
  for (const auto& [tag, value] : tags) {
    append(b, tag, 2);
    append(b, 4, 2);  // LONG
    append(b, 1, 4);
    append(b, value, 4);
  }
  append(b, 0, 4);
  b.insert(b.end(), pixels.begin(), pixels.end());
  return b;
}

Bytes npy() {
  const TemporaryFolder folder;
  write_npy(folder / "a.npy", ramp({1, nx, ny, nz}));
  return bytes_of(folder / "a.npy");
}

}  // namespace

std::vector<Base> volume_bases() {
  const Bytes raws[] = {nifti(ramp({nx, ny, nz}), "int16"),
                        nifti(ramp({nx, ny, nz}), "float32"),
                        nifti(ramp({nx, ny, nz}), "uint8"),
                        nifti(ramp({2, nx, ny, nz}), "int16"),
                        scaled_nifti(),
                        second_nifti()};
  std::vector<Base> bases;
  for (const Bytes& raw : raws) bases.push_back(base(".nii", raw, 348));
  const int levels[] = {1, 6, 12, 1, 6, 1};
  for (std::size_t i = 0; i < std::size(raws); ++i)
    bases.push_back(base(".nii.gz", gzipped(raws[i], levels[i]), 0, true));
  const auto nrrd = [&](const std::string& encoding, const std::string& space) {
    const std::string head = nrrd_header(encoding, space);
    const bool gz = encoding == "gzip";
    bases.push_back(base(gz ? ".nrrd gzip" : ".nrrd raw",
                         head + (gz ? gzipped(voxels(), 6) : voxels()), head.size(), gz));
  };
  nrrd("raw", "left-posterior-superior");
  nrrd("gzip", "left-posterior-superior");
  nrrd("raw", "RAS");
  nrrd("gzip", "right-anterior-superior");
  return bases;
}

std::vector<Base> other_bases() {
  const Bytes packed = zlib_bytes(voxels());
  const std::string plain = mha_header(false, 0), zipped = mha_header(true, packed.size());
  return {base(".mha raw", plain + voxels(), plain.size()),
          base(".mha zlib", zipped + packed, zipped.size(), true),
          base(".png", png(), 0, true),
          base(".jpg", jpeg(), 0),
          base(".bmp", bmp(), 54),
          base(".tif raw", tiff(1), 122),
          base(".tif deflate", tiff(8), 122, true),
          base(".npy", npy(), 128)};
}

}  // namespace sluice
