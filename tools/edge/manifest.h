// A package's manifest.json: which files belong to it, as they were (tools/runtime/package.h). No
// tensors here: `sluice`, its runtime and `sluice-edge` share it.
#pragma once

#include <filesystem>
#include <string>

#include "engine/base/json.h"

namespace sluice {

constexpr int package_format = 1;
// Of the self-test's voxels: other processors round otherwise.
constexpr double package_may_differ = 1e-3;

inline bool is_package(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder / "manifest.json", ignored) &&
         std::filesystem::is_regular_file(folder / "weights.safetensors", ignored);
}

// DataError where there is none, or where a newer Sluice made the package.
Json read_manifest(const std::filesystem::path& package);

// The files that a prediction reads, or all of them: how many. A DataError names the first that is
// not there or not as it was packaged. `digest` is the file's SHA-256, lower case.
std::size_t require_whole(const std::filesystem::path& package, const Json& manifest, bool all,
                          std::string (*digest)(const std::filesystem::path&));

// DataError where there is no segmentation that `verify` could compare with.
void require_selftest(const std::filesystem::path& package);

}  // namespace sluice
