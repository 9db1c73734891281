// NRRD volumes: `.nrrd` with the voxels after the header, `.nhdr` with them in a file beside it;
// encodings raw and gzip.
//
// Invariant: as nifti.h's: the whole file and nothing but the file. One to three axes are space;
// one more, wherever it stands, is the channels: that whose "space directions" entry is none, or
// whose kind is not of space. The geometry comes back as an RAS affine; a space that is neither
// RAS, LAS nor LPS is taken for LPS, as ITK does.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

Volume read_nrrd(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);

}  // namespace sluice
