// A checkpoint's folder names its run.
#pragma once

#include <filesystem>

namespace sluice {

// RUN of RUN/checkpoints/best; else the path itself.
std::filesystem::path run_of(const std::filesystem::path& given);

}  // namespace sluice
