#include "engine/base/image_files.h"

#include <cstdint>
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

// "%03d" of 7 as "007".
static std::string numbered(const std::string& number, std::size_t width, char fill) {
  return std::string(width > number.size() ? width - number.size() : 0, fill) + number;
}

std::vector<std::string> numbered_files(const std::string& text) {
  std::istringstream words(text);
  std::string pattern, more;
  std::int64_t first = 0, last = 0, step = 1;
  if (!(words >> pattern >> first >> last)) return {};
  if (!(words >> step)) step = 1;
  words.clear();
  const auto percent = pattern.find('%');
  if (words >> more || percent == pattern.npos || step < 1 || first < 0 || last < first ||
      last > 1'000'000'000 || step > 1'000'000'000 || (last - first) / step >= 65536)
    return {};
  const char fill = pattern[percent + 1] == '0' ? '0' : ' ';
  const auto end = pattern.find_first_not_of("0123456789", percent + 1);
  if (end == pattern.npos || pattern[end] != 'd' || pattern.find('%', end) != pattern.npos ||
      end - percent > 3)
    return {};
  const std::string digits = pattern.substr(percent + 1, end - percent - 1);
  const std::size_t width = digits.empty() ? 0 : std::stoul(digits);
  std::vector<std::string> files;
  for (std::int64_t n = first; n <= last; n += step)
    files.push_back(pattern.substr(0, percent) + numbered(std::to_string(n), width, fill) +
                    pattern.substr(end + 1));
  return files;
}

// MetaImage's "ElementDataFile = a.raw", NRRD's "data file: a.raw".
static std::vector<fs::path> voxels_named_in(const fs::path& header) {
  constexpr std::size_t most = 1 << 16;
  std::istringstream lines;
  try {
    lines.str(read_text(header, most));
  } catch (const Error&) {
    return {};
  }
  for (std::string line; std::getline(lines, line) && !trimmed(line).empty();) {
    const auto sign = line.find_first_of("=:");
    if (sign == std::string::npos) continue;
    const std::string key = lower_case(trimmed(line.substr(0, sign))),
                      value = trimmed(line.substr(sign + 1));
    if (key != "elementdatafile" && key != "data file" && key != "datafile") continue;
    if (value.empty() || lower_case(value) == "local") return {};
    std::vector<std::string> names = numbered_files(value);
    if (value.starts_with("LIST"))  // one a line, down to the end
      while (std::getline(lines, line) && !trimmed(line).empty()) names.push_back(trimmed(line));
    else if (names.empty())
      names.push_back(value);
    std::vector<fs::path> files;
    for (const auto& name : names) files.push_back(header.parent_path() / name);
    return files;
  }
  return {};
}

std::vector<fs::path> image_files(const fs::path& path) {
  const bool names_voxels = has_ending(path, ".mhd") || has_ending(path, ".mha") ||
                            has_ending(path, ".nhdr") || has_ending(path, ".nrrd");
  if (names_voxels) {
    std::vector<fs::path> files = voxels_named_in(path);
    files.insert(files.begin(), path);
    return files;
  }
  if (has_ending(path, ".mrxs")) return {path, fs::path(path).replace_extension()};
  const PairNames pair = pair_names(path);
  if (pair.header == pair.voxels) return {path};
  return {path, path == pair.header ? pair.voxels : pair.header};
}

}  // namespace sluice
