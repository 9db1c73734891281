#include "engine/base/missing_folder.h"

namespace sluice {

namespace fs = std::filesystem;

std::string missing_folder(const fs::path& path) {
  std::error_code error;
  fs::path there = fs::current_path(error), so_far;
  for (const fs::path& part : path.parent_path()) {
    so_far /= part;
    if (!fs::is_directory(so_far, error)) {
      if (fs::exists(so_far, error)) return " (" + so_far.string() + " is no folder)";
      return " (no folder " + part.string() + " in " + there.string() + ")";
    }
    there = so_far;
  }
  return "";
}

}  // namespace sluice
