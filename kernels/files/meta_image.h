// MetaImage volumes: `.mha` with the voxels after the header, `.mhd` with them in a file beside
// it; plain or compressed (zlib).
//
// Invariant: as nifti.h's: the whole file and nothing but the file. Components and a fourth axis
// become channels, the LPS geometry an RAS affine.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

Volume read_meta_image(const std::filesystem::path& path, at::ScalarType dtype,
                       const ReadBytes& read);

}  // namespace sluice
