#include "kernels/lists/data_list.h"

#include <fnmatch.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/files/file_io.h"
#include "kernels/lists/numpy_random.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A dataset.json says where in its own folder the files are, and nothing outside it.
fs::path inside(const fs::path& root, const std::string& path, const std::string& where) {
  const fs::path relative = fs::path(path).lexically_normal();
  if (relative.empty() || relative.is_absolute() || *relative.begin() == "..")
    throw DataError(where + ": \"" + path + "\" does not lie under " + root.string());
  return root / relative;
}

const Json& member(const Json& document, const std::string& key, const std::string& where) {
  const auto found = document.find(key);
  if (found == document.end()) throw DataError(where + ": has no \"" + key + "\" list");
  if (!found->is_array()) throw DataError(where + ": \"" + key + "\" is not a list");
  if (found->empty()) throw DataError(where + ": the list \"" + key + "\" is empty");
  return *found;
}

const std::string& path_in(const Json& path, const std::string& where) {
  if (!path.is_string() || path.get_ref<const std::string&>().empty())
    throw DataError(where + ": expected a path, found " + path.dump().substr(0, 60));
  return path.get_ref<const std::string&>();
}

// An entry is {"image": path, "label": path}, or a path alone, as "test" has it.
template <class Add>
DataItem parse_item(const Json& entry, const std::string& where, Add&& add) {
  DataItem item;
  if (entry.is_object())
    for (const auto& [key, path] : entry.items()) add(item, key, path);
  else
    add(item, "image", entry);
  if (item.files.empty()) throw DataError(where + ": names no file");
  item.name = file_stem(item.files.front().second);
  return item;
}

DataList parse_list(const Json& entries, const fs::path& root, const std::string& where) {
  DataList list;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string here = where + "[" + std::to_string(i) + "]";
    list.push_back(
        parse_item(entries[i], here, [&](DataItem& item, const std::string& key, const Json& path) {
          if (path.is_array())
            throw DataError(here + "." + key + ": is a list of files, which datalist reads");
          if (path.is_number() && key != "image" && key != "label") return;
          item.files.emplace_back(key,
                                  inside(root, path_in(path, here + "." + key), here).string());
        }));
  }
  return list;
}

DataList pick(const DataList& all, const std::vector<std::size_t>& indices) {
  DataList list;
  for (std::size_t i : indices) list.push_back(all[i]);
  return list;
}

}  // namespace

std::string file_stem(const fs::path& path) {
  fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  if (has_ending(name, ".gz")) name = name.stem();
  const std::string ending = name.extension().string();
  // A DICOM series or instance is often called by its UID, 1.2.840.113619.
  const bool of_uid = ending.size() > 1 && ending.find_first_not_of("0123456789", 1) == ending.npos;
  return (of_uid ? name : name.stem()).string();
}

Json read_json(const fs::path& path, std::uint64_t limit) {
  const FileBytes text = read_file(path, limit);
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > 64) throw DataError(path.string() + ": is nested more than 64 levels deep");
    return true;
  };
  try {
    return Json::parse(text.data(), text.data() + text.size(), shallow);
  } catch (const Json::parse_error& e) {
    throw DataError(path.string() + ": is not JSON: " + e.what());
  }
}

DataList decathlon_list(const fs::path& root, const std::string& split, double validation_fraction,
                        std::uint32_t seed) {
  const fs::path path = root / "dataset.json";
  const std::string where = path.string();
  const Json document = read_json(path);
  if (!document.is_object()) throw DataError(where + ": is not a JSON object");
  if (split == "test" || document.contains("validation"))
    return parse_list(member(document, split, where), root, where + ": " + split);
  if (split == "validation" && validation_fraction == 0)
    throw DataError(where + ": has no \"validation\" list; set val_frac to split \"training\"");

  const DataList all = parse_list(member(document, "training", where), root, where + ": training");
  if (validation_fraction == 0) return all;
  const Split parts = split_indices(all.size(), validation_fraction, seed);
  DataList list = pick(all, split == "validation" ? parts.validation : parts.training);
  if (list.empty())
    throw DataError(where + ": val_frac leaves no item of " + std::to_string(all.size()) + " for " +
                    split);
  return list;
}

void add_files(DataItem& item, const std::string& key, const Json& files, const fs::path& root,
               const std::string& where) {
  std::size_t n = 0;
  for (const Json& path : files.is_array() && !files.empty() ? files : Json::array({files})) {
    item.files.emplace_back(n == 0 ? key : key + "#" + std::to_string(n),
                            (root / path_in(path, where + "." + key)).string());
    ++n;
  }
}

DataList list_of_items(const Json& items, const fs::path& root, const std::string& where) {
  if (!items.is_array() || items.empty())
    throw DataError(where + ": expected a list of {key: path}, found " +
                    items.dump().substr(0, 60));
  DataList list;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string here = where + "[" + std::to_string(i) + "]";
    list.push_back(
        parse_item(items[i], here, [&](DataItem& item, const std::string& key, const Json& files) {
          add_files(item, key, files, root, here);
        }));
  }
  return list;
}

DataList list_of_files(const fs::path& folder, const std::string& pattern, const std::string& key) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (::fnmatch(pattern.c_str(), entry.path().filename().c_str(), FNM_PERIOD) == 0 &&
        !entry.is_directory())
      paths.push_back(entry.path());
  if (error) fail_to_list(folder, error);
  if (paths.empty()) throw DataError(folder.string() + ": no file matches \"" + pattern + "\"");
  std::sort(paths.begin(), paths.end());
  DataList list;
  for (const auto& path : paths) list.push_back({file_stem(path), {{key, path.string()}}});
  return list;
}

std::vector<bool> held_out(std::size_t n, const Fold& f) {
  const auto fold = static_cast<std::size_t>(f.fold), folds = static_cast<std::size_t>(f.folds);
  if (f.fold < 0 || fold >= folds || folds > n)
    throw DataError("fold " + std::to_string(f.fold) + " of " + std::to_string(f.folds) +
                    " folds of " + std::to_string(n) + " cases");
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  NumpyRandom(static_cast<std::uint32_t>(f.seed)).shuffle(order);
  const std::size_t begin = fold * (n / folds) + std::min(fold, n % folds);
  const std::size_t end = begin + n / folds + (fold < n % folds ? 1 : 0);
  std::vector<bool> held(n, false);
  for (std::size_t i = begin; i < end; ++i) held[order[i]] = true;
  return held;
}

void take_fold(DataList& list, const Fold& f) {
  if (f.fold < 0 && f.split == "validation")
    throw DataError("without a fold there is no validation");
  if (f.fold < 0) return;
  const std::vector<bool> held = held_out(list.size(), f);
  DataList kept;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (held[i] == (f.split == "validation")) kept.push_back(std::move(list[i]));
  list = std::move(kept);
}

std::vector<std::size_t> items_of_fold(const OwnFolds& folds, const Fold& f,
                                       const std::string& where) {
  std::vector<std::size_t> items(folds.size());
  std::iota(items.begin(), items.end(), std::size_t{0});
  if (f.fold < 0 && f.split == "training") return items;
  if (f.fold < 0) throw DataError("without a fold there is no validation");
  if (std::find(folds.begin(), folds.end(), f.fold) == folds.end())
    throw DataError(where + ": no sample has the \"fold\" " + std::to_string(f.fold));
  std::erase_if(items,
                [&](std::size_t i) { return (folds[i] == f.fold) != (f.split == "validation"); });
  if (items.empty())
    throw DataError(where + ": all samples are of the fold " + std::to_string(f.fold) +
                    ", none is left for training");
  return items;
}

void limit_list(DataList& list, std::optional<std::int64_t> n) {
  if (n && *n >= 0 && static_cast<std::size_t>(*n) < list.size())
    list.resize(static_cast<std::size_t>(*n));
}

}  // namespace sluice
