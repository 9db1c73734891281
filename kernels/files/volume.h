// A volume as it comes from a file: voxels, geometry, and what stood on disk.
//
// Invariant: data is contiguous [C, X, Y, Z] (or [C, X, Y] and [C, X] for files with fewer axes)
// with X, Y, Z the file's i, j, k axes; the affine maps voxel (i, j, k) to RAS millimetres,
// whatever convention the file keeps.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <filesystem>
#include <string>

#include "kernels/files/file_io.h"

namespace sluice {

using Matrix4 = std::array<double, 16>;  // row-major

struct Volume {
  at::Tensor data;
  // [1, X, Y(, Z)], of a picture with a palette, or of one bit a pixel: the numbers that stand in
  // the file, which are what labels mean; data has their colours. Undefined of all others.
  at::Tensor numbers;
  Matrix4 affine{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  bool has_affine = true;                  // false: the format keeps no geometry (PNG)
  bool placed = true;                      // false: the file could say where it lies but does not
  std::array<double, 3> spacing{1, 1, 1};  // millimetres, the lengths of the affine's columns
  std::string disk_dtype;                  // "int16", as numpy calls it
  bool may_be_non_finite = false;          // what stood on disk can hold NaN or infinity
};

std::array<double, 3> spacing_of(const Matrix4& affine);

// Stored numbers as `dtype`, contiguous: an integer dtype that cannot hold one is a DataError.
at::Tensor exactly(const at::Tensor& stored, at::ScalarType dtype, const std::string& name);

// Whether the name has an extension that read_volume() knows; of DICOM files, which are slices more
// often than images, it has none.
bool is_volume_name(const std::filesystem::path& path);

// Reads a file by its extension: .nii, .nii.gz, .hdr and .img, .nrrd, .nhdr, .mha, .mhd, and the
// pictures .png, .jpg, .jpeg, .bmp, .tif and .tiff, whose extension may be in capitals; NumPy's
// .npy as one channel; a folder is a DICOM series, another file that begins as DICOM does or is
// named .dcm a volume of its own slices. `dtype` is what the voxels become: float32,
// float64, uint8, int16, int32 or int64. An integer dtype is exact: a value that it cannot hold is
// a DataError, never rounded. Every file that belongs to it goes through `read`.
Volume read_volume(const std::filesystem::path& path, at::ScalarType dtype = at::kFloat,
                   const ReadBytes& read = read_plain);

}  // namespace sluice
