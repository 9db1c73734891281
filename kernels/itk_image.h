// PNG, BMP, TIFF, NRRD and MetaImage through ITK, with the reader named explicitly. ITK's factory
// is not used: it probes every format under one lock and opens a sibling file where it sees fit.
//
// Invariant: ITK sees a file only after kernels/image_check.h passed it. Its LPS geometry comes
// back as an RAS affine, its interleaved components as channels.
#pragma once

#include "kernels/volume.h"

namespace sluice {

// Pictures: no geometry; palettes become colours.
Volume read_png(const std::filesystem::path& path, at::ScalarType dtype);
Volume read_bmp(const std::filesystem::path& path, at::ScalarType dtype);
Volume read_tiff(const std::filesystem::path& path, at::ScalarType dtype);
Volume read_nrrd(const std::filesystem::path& path, at::ScalarType dtype);
Volume read_meta_image(const std::filesystem::path& path, at::ScalarType dtype);

std::string itk_version();  // "5.2.1"

}  // namespace sluice
