// MetaImage volumes: `.mha` with the voxels after the header, `.mhd` with them in a file beside
// it; plain or compressed (zlib).
//
// Invariant: as nifti.h's: the whole file and nothing but the file. Components and a fourth axis
// become channels, the LPS geometry an RAS affine. ElementToIntensityFunctionSlope and Offset are
// left aside, as ITK leaves them: the numbers are those that stand in the file.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

Volume read_meta_image(const std::filesystem::path& path, at::ScalarType dtype,
                       const ReadBytes& read);

// Writes [X, Y, Z] or [C, X, Y, Z] as .mha, channels as components; compressed unless `level` is 0.
// `dtype` and what does not fit it are as write_nifti()'s. See write_file().
void write_meta_image(const std::filesystem::path& path, const at::Tensor& data,
                      const Matrix4& affine, const std::string& dtype = "float32", int level = 1);

}  // namespace sluice
