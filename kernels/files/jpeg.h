// JPEG files.
//
// Invariant: grey gives one channel, colour three (red, green, blue); whatever libjpeg only warns
// of (data that end early or are damaged) is a DataError that names the file. An Exif orientation
// is not applied, as Pillow and MONAI do not.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

Volume read_jpeg(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);

}  // namespace sluice
