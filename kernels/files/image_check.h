// What must hold of a PNG file before libpng decodes it.
//
// Invariant: a PNG that passes is whole and its checksums hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

// Throws DataError naming the file; `name` is its path.
void check_png(std::span<const std::uint8_t> file, const std::string& name);

}  // namespace sluice
