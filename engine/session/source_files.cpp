#include "engine/session/source_files.h"

#include <sys/stat.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstdint>
#include <vector>

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

static std::string stamps_of(const std::string& path) {
  std::string text;
  for (const auto& file : image_files(path)) text += stamp_of(file.string());
  return text;
}

// Each is a wait where the files lie on another machine.
static std::string stamps_of(const std::vector<std::string>& paths) {
  std::vector<std::string> stamps(paths.size());
  tbb::parallel_for(std::size_t{0}, paths.size(),
                    [&](std::size_t i) { stamps[i] = stamps_of(paths[i]); });
  std::string text;
  for (const std::string& stamp : stamps) text += stamp;
  return text;
}

// Of `most` samples at most, evenly spread, until `fn` says false; false too where the source has
// no list.
template <class Fn>
static bool for_each_record(const Node& source, std::uint64_t most, Fn&& fn) {
  const std::uint64_t n = source.item_count().value_or(0);
  const std::uint64_t step = (n + most - 1) / most;
  for (std::uint64_t item = 0; item < n; item += step) {
    const SamplePtr sample = source.item_record(item);
    if (!sample || !fn(*sample)) return false;
  }
  return n > 0;
}

// The numbers of a field that a list has itself.
static std::string numbers_of(const at::Tensor& tensor) {
  const at::Tensor t = tensor.cpu().contiguous();
  std::string text = std::to_string(static_cast<int>(t.scalar_type()));
  for (const std::int64_t n : t.sizes()) text += " " + std::to_string(n);
  return text.append(":").append(static_cast<const char*>(t.data_ptr()), t.nbytes());
}

Json source_digests(const Node& source) {
  constexpr std::uint64_t most = 100'000, least = 16;
  std::string names, values;
  std::vector<std::string> paths;
  std::uint64_t seen = 0;
  const bool listed = for_each_record(source, most, [&](const Sample& sample) {
    names += sample.name + "\n";
    for (const auto& [name, field] : sample.fields()) {
      const std::string& path = field.geometry().path;
      if (path.empty())
        values += name + " " + (field.tensor.defined() ? numbers_of(field.tensor) : "") + "\n";
      else if (paths.empty() || path != paths.back())  // else one file of many pictures
        paths.push_back(path);
    }
    return ++seen < least || !paths.empty();  // samples that are made cost time and have no files
  });
  if (!listed || paths.empty()) return nullptr;
  return {{"files", sha256_of(names + stamps_of(paths))}, {"values", sha256_of(values)}};
}

std::vector<std::string> source_changes(const Json& had, const Json& has, const std::string& run) {
  std::vector<std::string> changes;
  for (const auto& [source, digests] : had.items()) {
    if (!has.contains(source)) continue;
    if (has[source]["files"] != digests.at("files"))
      changes.push_back("the files of " + source + " are others than those of " + run +
                        ", or were written to since");
    if (has[source]["values"] != digests.at("values"))
      changes.push_back("the values (labels, weights) of the samples of " + source +
                        " are others than those of " + run);
  }
  return changes;
}

std::string names_digest(const Node& source) {
  constexpr std::uint64_t most = 1000;  // each may be made
  std::string all;
  const bool listed = for_each_record(source, most, [&](const Sample& sample) {
    all += sample.name + "\n";
    return true;
  });
  return listed ? sha256_of(all) : "";
}

}  // namespace sluice
