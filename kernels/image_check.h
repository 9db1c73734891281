// What must hold of a PNG, BMP, TIFF, NRRD or MetaImage file before ITK may read it. ITK's readers
// accept truncated data without a word, and one wrong letter in a MetaImage header ends the
// process.
//
// Invariant: a file that passes has a header of known fields with the right count of numbers in
// each, and exactly the bytes of data that the header announces; checksums, where the format has
// them (PNG, gzip, zlib), hold. The returned size is that of the decoded voxels.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

// All throw DataError naming the file; `name` is its path.
void check_png(std::span<const std::uint8_t> file, const std::string& name);
void check_bmp(std::span<const std::uint8_t> file, const std::string& name);
void check_tiff(std::span<const std::uint8_t> file, const std::string& name);
std::uint64_t check_nrrd(std::span<const std::uint8_t> file, const std::string& name);
std::uint64_t check_meta_image(std::span<const std::uint8_t> file, const std::string& name);

}  // namespace sluice
