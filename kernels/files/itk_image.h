// PNG, BMP and TIFF through ITK, with the reader named explicitly. ITK's factory is not used: it
// probes every format under one lock and opens a sibling file where it sees fit.
//
// Invariant: ITK sees a file only after kernels/files/image_check.h passed it. Its interleaved
// components come back as channels.
#pragma once

#include "kernels/files/volume.h"

namespace sluice {

// Pictures: no geometry; palettes become colours.
Volume read_png(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);
Volume read_bmp(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);
Volume read_tiff(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read);

std::string itk_version();  // "5.2.1"

}  // namespace sluice
