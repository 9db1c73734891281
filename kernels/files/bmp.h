// BMP files, uncompressed, of 1, 4, 8, 24 or 32 bits a pixel.
//
// Invariant: a file that is read has all the bytes that its header announces. Colours are red,
// green and blue, as Pillow has them; a palette of greys alone gives one channel.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

Volume read_bmp(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);

}  // namespace sluice
