// PNG files as volumes, by libpng.
//
// Invariant: libpng sees a file only after check_png() (image_check.h) passed it. Transparency of a
// palette or of one colour (tRNS) is left out, as Pillow does; a palette becomes colours.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

Volume read_png(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);

}  // namespace sluice
