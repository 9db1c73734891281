#include "tools/edge/manifest.h"

#include "engine/base/error.h"
#include "engine/base/version.h"
#include "kernels/lists/data_list.h"

namespace sluice {

namespace fs = std::filesystem;

Json read_manifest(const fs::path& package) {
  const fs::path file = package / "manifest.json";
  const Json manifest = read_json(file);
  const auto has = [&](const char* key, Json::value_t type) {
    return manifest.contains(key) && manifest[key].type() == type;
  };
  if (!has("format", Json::value_t::number_unsigned) || !has("sluice", Json::value_t::string) ||
      !has("files", Json::value_t::object))
    throw DataError(file.string() + ": is no package's");
  if (manifest["format"] > package_format)
    throw DataError(package.string() + ": was packaged by Sluice " +
                    manifest["sluice"].get<std::string>() + ", which is newer than this one (" +
                    version + ")");
  for (const char* needed : {"graph.json", "weights.safetensors"})
    if (!manifest["files"].contains(needed))
      throw DataError(file.string() + ": \"files\" lacks " + needed + ", which a package has");
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

void require_selftest(const fs::path& package) {
  const fs::path expected = package / "selftest/expected";
  if (fs::is_directory(expected) && !fs::is_empty(expected)) return;
  throw DataError(package.string() +
                  ": has no self-test, so nothing was computed and compared: `sluice export RUN "
                  "--package DIR` makes a package with one, of a made-up image or of --selftest "
                  "FILE");
}

}  // namespace sluice
