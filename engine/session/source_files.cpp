#include "engine/session/source_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "engine/base/image_files.h"
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

// Of 1000 samples at most, evenly spread; false where the source has no list.
template <class Fn>
static bool for_each_record(const Node& source, Fn&& fn) {
  const std::uint64_t n = source.item_count().value_or(0);
  const std::uint64_t step = std::max<std::uint64_t>(1, n / 1000);
  for (std::uint64_t item = 0; item < n; item += step) {
    const SamplePtr sample = source.item_record(item);
    if (!sample) return false;
    fn(*sample);
  }
  return n > 0;
}

std::string source_digest(const Node& source) {
  std::string all, last;
  bool any = false;
  const bool listed = for_each_record(source, [&](const Sample& sample) {
    all += sample.name + "\n";
    for (const auto& [name, field] : sample.fields()) {
      const std::string& path = field.geometry().path;
      if (path.empty() || path == last) continue;  // one file of many pictures
      for (const auto& file : image_files(path)) all += stamp_of(file.string());
      last = path;
      any = true;
    }
  });
  return listed && any ? sha256_of(all) : "";
}

std::string names_digest(const Node& source) {
  std::string all;
  const bool listed =
      for_each_record(source, [&](const Sample& sample) { all += sample.name + "\n"; });
  return listed ? sha256_of(all) : "";
}

}  // namespace sluice
