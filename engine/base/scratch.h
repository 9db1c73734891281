// A folder that is there as long as the object.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "engine/base/error.h"

namespace sluice {

struct Scratch {
  std::filesystem::path path;
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw IoError(pattern + ": cannot be made");
    path = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

}  // namespace sluice
