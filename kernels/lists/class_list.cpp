#include "kernels/lists/class_list.h"

#include <algorithm>
#include <limits>

#include "engine/base/error.h"
#include "kernels/files/volume.h"
#include "kernels/lists/numpy_random.h"
#include "kernels/lists/walk.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sub_folders(const fs::path& root) {
  std::error_code none;
  std::vector<fs::path> found;
  walk(root, 0, [&](const fs::directory_entry& entry, int) {
    if (entry.is_directory(none)) found.push_back(entry.path());
  });
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> images_below(const fs::path& folder) {
  std::error_code none;
  std::vector<fs::path> found;
  walk(folder, std::numeric_limits<int>::max(), [&](const fs::directory_entry& entry, int) {
    if (entry.is_regular_file(none) && is_volume_name(entry.path())) found.push_back(entry.path());
  });
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

ClassList class_folder(const fs::path& root, const std::string& key) {
  ClassList list;
  for (const fs::path& folder : sub_folders(root)) {
    const auto images = images_below(folder);
    if (images.empty()) throw DataError(folder.string() + ": no image in the folder of a class");
    const std::string name = folder.filename().string();
    for (const fs::path& path : images) {
      list.items.push_back({name + "/" + file_stem(path), {{key, path.string()}}});
      list.labels.push_back(std::ssize(list.classes));
    }
    list.classes.push_back(name);
  }
  if (list.classes.size() < 2)
    throw DataError(root.string() + ": " +
                    (list.classes.empty() ? "has no folders" : "has only one folder") +
                    "; needed is one for each of two classes or more");
  return list;
}

ClassList split_classes(const ClassList& all, const std::string& split, double validation_fraction,
                        std::uint32_t seed) {
  const Split parts = split_indices(all.items.size(), validation_fraction, seed);
  ClassList list;
  list.classes = all.classes;
  for (std::size_t i : split == "validation" ? parts.validation : parts.training) {
    list.items.push_back(all.items[i]);
    list.labels.push_back(all.labels[i]);
  }
  if (list.items.empty())
    throw DataError("val_frac leaves no image of " + std::to_string(all.items.size()) + " for " +
                    split);
  return list;
}

}  // namespace sluice
