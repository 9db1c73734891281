// Voxels that a file keeps as text: numbers between blanks, or bytes of two hexadecimal digits.
//
// Invariant: what comes out has exactly `expected` bytes, or a DataError names the file. Nothing is
// allocated that the text is too short for.
#pragma once

#include <span>
#include <string>

#include "kernels/files/raw_voxels.h"

namespace sluice {

// In this machine's byte order; commas are blanks.
FileBytes voxels_of_numbers(std::span<const std::uint8_t> text, StoredType type,
                            std::uint64_t expected, const std::string& name);
// In the file's byte order.
FileBytes voxels_of_hex(std::span<const std::uint8_t> text, std::uint64_t expected,
                        const std::string& name);

}  // namespace sluice
