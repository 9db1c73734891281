// Text as a file that is there as a whole or not at all; missing folders are made.
#pragma once

#include <string_view>

#include "kernels/files/file_io.h"

namespace sluice {

inline void write_text(const std::filesystem::path& file, std::string_view text) {
  write_file(file, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
}

}  // namespace sluice
