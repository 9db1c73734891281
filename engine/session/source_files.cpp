#include "engine/session/source_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"

namespace sluice {

// A folder that is moved keeps its files' names, sizes and times.
static std::string stamp_of(const std::string& path) {
  struct stat s {};
  std::string text = std::filesystem::path(path).filename().string();
  if (stat(path.c_str(), &s) == 0)
    text += " " + std::to_string(s.st_size) + " " + std::to_string(s.st_mtim.tv_sec) + "." +
            std::to_string(s.st_mtim.tv_nsec);
  return text + "\n";
}

std::string source_digest(const Node& source) {
  const std::uint64_t n = source.item_count().value_or(0);
  const std::uint64_t step = std::max<std::uint64_t>(1, n / 1000);
  std::string all, last;
  bool any = false;
  for (std::uint64_t item = 0; item < n; item += step) {
    const SamplePtr sample = source.item_record(item);
    if (!sample) return "";
    all += sample->name + "\n";
    for (const auto& [name, field] : sample->fields()) {
      const std::string& path = field.geometry().path;
      if (path.empty() || path == last) continue;  // one file of many pictures
      all += stamp_of(path);
      last = path;
      any = true;
    }
  }
  return any ? sha256_of(all) : "";
}

}  // namespace sluice
