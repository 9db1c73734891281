// Libraries end the process where the current folder was removed, with words of their own, so this
// is asked before they are loaded.
#pragma once

#include <filesystem>
#include <tuple>

#include "engine/base/error.h"

namespace sluice::cli {

inline void require_current_folder() {
  std::error_code gone;
  std::ignore = std::filesystem::current_path(gone);
  if (gone == std::errc::no_such_file_or_directory)
    throw IoError("the current folder does not exist: " + gone.message());
}

}  // namespace sluice::cli
