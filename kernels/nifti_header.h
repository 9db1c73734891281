// The headers of NIfTI-1 (348 bytes) and NIfTI-2 (540 bytes) single files, in either byte order.
//
// Invariant: a NiftiHeader that parse_nifti_header() returns is sane: 1 to 7 axes of positive
// length whose product cannot overflow and stays under the volume limit, a scalar datatype, a
// finite affine. Everything after it may trust these numbers; nothing was allocated for them.
//
//   0       348/540         offset                     offset + voxels * size
//   | header | extensions... | voxels, X fastest        | end of file
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/volume.h"

namespace sluice {

enum class NiftiType : std::int16_t {
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

inline constexpr std::size_t nifti1_size = 348, nifti2_size = 540;

struct NiftiHeader {
  bool swapped = false;           // the file's byte order is not this machine's
  std::vector<std::int64_t> dim;  // the file's axes, X first, at most 7
  NiftiType type = NiftiType::float32;
  std::uint64_t offset = 352;   // of the first voxel
  double slope = 1, inter = 0;  // value = slope * stored + inter; 1 and 0 where none is set
  Matrix4 affine{};

  std::int64_t spatial_rank() const { return std::min<std::int64_t>(3, std::ssize(dim)); }
  std::int64_t axis(int d) const { return d < std::ssize(dim) ? dim[d] : 1; }
  std::int64_t channels() const {
    std::int64_t n = 1;
    for (int d = 3; d < 7; ++d) n *= axis(d);
    return n;
  }
  std::int64_t voxels() const { return axis(0) * axis(1) * axis(2) * channels(); }
};

std::size_t size_of(NiftiType type);
const char* name_of(NiftiType type);            // "int16"
NiftiType nifti_type(const std::string& name);  // throws std::invalid_argument

// `front`: the file's first 540 bytes, or all of a shorter file. `name`: the file's, for messages.
NiftiHeader parse_nifti_header(std::span<const std::uint8_t> front, const std::string& name);

// A NIfTI-1 header and the four bytes that say "no extensions": 352 bytes, this machine's order.
std::vector<std::uint8_t> make_nifti1_header(const NiftiHeader& header);

}  // namespace sluice
