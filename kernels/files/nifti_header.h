// The headers of NIfTI-1 (348 bytes) and NIfTI-2 (540 bytes), in either byte order.
//
// Invariant: a NiftiHeader that parse_nifti_header() returns is sane: 1 to 7 axes of positive
// length whose product cannot overflow and stays under the volume limit, a scalar datatype, a
// finite affine. Everything after it may trust these numbers; nothing was allocated for them.
//
//   0       348/540         offset                     offset + voxels * size
//   | header | extensions... | voxels, X fastest        | end of file
//
// Of a pair the header's file has the front, and the offset (often 0) counts in the other one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/files/raw_voxels.h"

namespace sluice {

using NiftiType = StoredType;

inline constexpr std::size_t nifti1_size = 348, nifti2_size = 540;

struct NiftiHeader {
  bool pair = false;              // the voxels stand in a file of their own
  bool swapped = false;           // the file's byte order is not this machine's
  std::vector<std::int64_t> dim;  // the file's axes, X first, at most 7
  NiftiType type = NiftiType::float32;
  std::uint64_t offset = 352;   // of the first voxel
  double slope = 1, inter = 0;  // value = slope * stored + inter; 1 and 0 where none is set
  Matrix4 affine{};
  std::int16_t intent = 0;  // of what is written: 1007, vectors
  bool placed = true;       // false: neither sform nor qform is set

  std::int64_t spatial_rank() const { return std::min<std::int64_t>(3, std::ssize(dim)); }
  std::int64_t axis(int d) const { return d < std::ssize(dim) ? dim[d] : 1; }
  std::int64_t channels() const {
    std::int64_t n = 1;
    for (int d = 3; d < 7; ++d) n *= axis(d);
    return n;
  }
  std::int64_t voxels() const { return axis(0) * axis(1) * axis(2) * channels(); }
};

// `front`: the file's first 540 bytes, or all of a shorter file. `name`: the file's, for messages.
NiftiHeader parse_nifti_header(std::span<const std::uint8_t> front, const std::string& name);

// A NIfTI-1 header and the four bytes that say "no extensions": 352 bytes, this machine's order.
std::vector<std::uint8_t> make_nifti1_header(const NiftiHeader& header);

}  // namespace sluice
