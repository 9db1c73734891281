#include "tools/edge/manifest.h"

#include "engine/base/error.h"
#include "engine/base/version.h"
#include "kernels/lists/data_list.h"

namespace sluice {

namespace fs = std::filesystem;

Json read_manifest(const fs::path& package) {
  const Json manifest = read_json(package / "manifest.json");
  if (manifest.value("format", 0) < 1 || !manifest.contains("files"))
    throw DataError((package / "manifest.json").string() + ": is no package's");
  if (manifest["format"] > package_format)
    throw DataError(package.string() + ": was packaged by Sluice " + manifest.value("sluice", "?") +
                    ", which is newer than this one (" + version + ")");
  return manifest;
}

std::size_t require_whole(const fs::path& package, const Json& manifest, bool all,
                          std::string (*digest)(const fs::path&)) {
  std::size_t count = 0;
  for (const auto& [name, expected] : manifest["files"].items()) {
    if (!all && name.starts_with("selftest/")) continue;
    const fs::path file = package / name;
    if (!fs::is_regular_file(file))
      throw DataError(file.string() + ": is not there, though the package had it");
    if (digest(file) != expected) throw DataError(file.string() + ": is not as it was packaged");
    ++count;
  }
  return count;
}

}  // namespace sluice
