// What must hold of a PNG, BMP or TIFF file before ITK may read it: its readers accept truncated
// data without a word.
//
// Invariant: a PNG that passes is whole and its checksums hold; a BMP or TIFF has all the bytes
// that its header announces.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

// All throw DataError naming the file; `name` is its path.
void check_png(std::span<const std::uint8_t> file, const std::string& name);
void check_bmp(std::span<const std::uint8_t> file, const std::string& name);
void check_tiff(std::span<const std::uint8_t> file, const std::string& name);

}  // namespace sluice
