// Of a path that is not there: where it ends.
#pragma once

#include <filesystem>
#include <string>

namespace sluice {

// " (no folder imagesTr in data)" where the file's folder is missing, or one above it; else "". To
// be put behind "no such file".
std::string missing_folder(const std::filesystem::path& path);

}  // namespace sluice
