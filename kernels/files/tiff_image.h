// TIFF pictures by libtiff, classic and BigTIFF, in strips or tiles, by planes or not, of any
// number of bits. Pages of one size are the slices of a volume; reduced ones and masks are passed
// over.
//
// Invariant: whatever libtiff only warns of while it decodes, data that end early and a damaged
// deflate stream are a DataError that names the file.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

// [C, X, Y] or, of several pages, [C, X, Y, Z], without geometry.
Volume read_tiff(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);

}  // namespace sluice
