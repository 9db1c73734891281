// Voxels as they stand in a file, and what their header says of them: where every reader of
// volumes meets. No tensors here.
//
// Invariant: whoever makes a RawVolume has checked that its numbers fit the bytes: the product of
// all axes and channels times the size of a number is exactly what there is.
//
//   planes:       [channel][z][y][x]       NIfTI, and axes after the third
//   interleaved:  [z][y][x][channel]       MetaImage, NRRD's vectors and colours
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/files/file_io.h"

namespace sluice {

using Matrix4 = std::array<double, 16>;  // row-major

std::array<double, 3> spacing_of(const Matrix4& affine);  // the lengths of its columns

// The numbers are NIfTI's codes.
enum class StoredType : std::int16_t {
  uint8 = 2,
  int16 = 4,
  int32 = 8,
  float32 = 16,
  float64 = 64,
  int8 = 256,
  uint16 = 512,
  uint32 = 768,
  int64 = 1024,
  uint64 = 1280,
};
std::size_t size_of(StoredType type);
const char* name_of(StoredType type);             // "int16"
StoredType stored_type(const std::string& name);  // throws std::invalid_argument
const StoredType* find_stored_type(std::int64_t code);

template <class F>
void with_stored_type(StoredType type, F&& f) {
  switch (type) {
    case StoredType::uint8:
      return f(std::uint8_t{});
    case StoredType::int8:
      return f(std::int8_t{});
    case StoredType::uint16:
      return f(std::uint16_t{});
    case StoredType::int16:
      return f(std::int16_t{});
    case StoredType::uint32:
      return f(std::uint32_t{});
    case StoredType::int32:
      return f(std::int32_t{});
    case StoredType::uint64:
      return f(std::uint64_t{});
    case StoredType::int64:
      return f(std::int64_t{});
    case StoredType::float32:
      return f(float{});
    case StoredType::float64:
      return f(double{});
  }
}

struct RawVolume {
  StoredType type = StoredType::float32;
  bool swapped = false;           // the byte order is not this machine's
  std::vector<std::int64_t> dim;  // X first, 1 to 3 axes
  std::int64_t channels = 1;
  // Channels stand behind so many of the axes: 0: interleaved; dim.size(): in planes.
  std::size_t channel_axis = 0;
  double slope = 1, inter = 0;  // value = slope * stored + inter
  Matrix4 affine{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  bool placed = true;  // as in Volume

  std::int64_t axis(std::size_t d) const { return d < dim.size() ? dim[d] : 1; }
};

double determinant3(const Matrix4& m);
// DataError where an affine is not finite or, of a volume of three axes, singular.
void check_affine(const Matrix4& affine, std::size_t axes, const std::string& name);

// The voxels, which begin anywhere in `file`, in planes and in this machine's byte order. They stay
// in `file` where they can, else they are in `planes`.
std::span<const std::uint8_t> in_order(const RawVolume& raw, FileBytes& file, std::size_t begin,
                                       FileBytes& planes);
// Such voxels as the values that they stand for, channels first. Integers are exact: how many
// values `Out` cannot hold. Of float, double, uint8, int16, int32, int64.
template <class Out>
std::int64_t to_values(std::span<const std::uint8_t> voxels, const RawVolume& raw, Out* out);

}  // namespace sluice
