#include "tools/runs/run_of.h"

namespace sluice {

namespace fs = std::filesystem;

fs::path run_of(const fs::path& given) {
  fs::path folder = given.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "best/"
  std::error_code none;
  const fs::path all = folder.parent_path();
  if (all.filename() != "checkpoints" || !fs::is_regular_file(folder / "state.json", none))
    return given;
  return all.has_parent_path() ? all.parent_path() : ".";
}

}  // namespace sluice
