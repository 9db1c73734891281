#include "engine/base/image_files.h"

#include <optional>
#include <sstream>
#include <string>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "engine/base/letter_case.h"
#include "engine/base/read_file.h"
#include "engine/base/trimmed.h"

namespace sluice {

namespace fs = std::filesystem;

PairNames pair_names(const fs::path& path) {
  const bool gz = has_ending(path, ".gz");
  fs::path stem = gz ? fs::path(path).replace_extension() : path;
  const std::string given = stem.extension().string(), lower = lower_case(given);
  if (lower != ".hdr" && lower != ".img") return {path, path};
  const auto half = [&](const std::string& extension) {
    stem.replace_extension(given == lower ? extension : upper_case(extension));
    return stem.string() + (gz ? path.extension().string() : "");
  };
  return {half(".hdr"), half(".img")};
}

// MetaImage's "ElementDataFile = a.raw", NRRD's "data file: a.raw".
static std::optional<fs::path> voxels_named_in(const fs::path& header) {
  constexpr std::size_t most = 1 << 16;
  std::istringstream lines;
  try {
    lines.str(read_text(header, most));
  } catch (const Error&) {
    return std::nullopt;
  }
  for (std::string line; std::getline(lines, line) && !trimmed(line).empty();) {
    const auto sign = line.find_first_of("=:");
    if (sign == std::string::npos) continue;
    const std::string key = lower_case(trimmed(line.substr(0, sign))),
                      value = trimmed(line.substr(sign + 1));
    if (key != "elementdatafile" && key != "data file" && key != "datafile") continue;
    if (value.empty() || lower_case(value) == "local") return std::nullopt;
    return header.parent_path() / value;
  }
  return std::nullopt;
}

std::vector<fs::path> image_files(const fs::path& path) {
  const bool names_voxels = has_ending(path, ".mhd") || has_ending(path, ".mha") ||
                            has_ending(path, ".nhdr") || has_ending(path, ".nrrd");
  if (names_voxels) {
    const auto voxels = voxels_named_in(path);
    return voxels ? std::vector{path, *voxels} : std::vector{path};
  }
  if (has_ending(path, ".mrxs")) return {path, fs::path(path).replace_extension()};
  const PairNames pair = pair_names(path);
  if (pair.header == pair.voxels) return {path};
  return {path, path == pair.header ? pair.voxels : pair.header};
}

}  // namespace sluice
