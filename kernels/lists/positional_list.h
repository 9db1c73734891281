// Lists of samples whose files belong together by their position, as Python scripts pair them:
// sorted(glob(images)) with sorted(glob(labels)), a column of a CSV file, a list in a JSON file;
// and which part of such a list is meant.
#pragma once

#include "kernels/lists/data_list.h"

namespace sluice {

// "images/*.nii.gz", or {"glob": ...} or {"csv": file, "column": name}, with
// "prefix": text before each name, "replace": [[old, new], ...] done to each name.
// In the order of Python's sorted(), or of the rows.
std::vector<std::string> names_of(const nlohmann::ordered_json& list, const std::string& where);

// One list a key, side by side; as many samples as the shortest has.
DataList list_side_by_side(const nlohmann::ordered_json& lists, const std::string& where);

// Numbers beside the files of a JSON list: for each sample those of `values`, one or several.
struct JsonList {
  DataList items;
  std::vector<std::vector<std::vector<double>>> values;
};
// file[key], or the whole file where `key` is empty: dictionaries, or texts, which are images. A
// list of files under one key becomes the fields key, key#1, key#2, ...; relative paths stand under
// `root`.
JsonList list_of_json(const std::filesystem::path& file, const std::string& key,
                      const std::filesystem::path& root, const std::vector<std::string>& keys,
                      const std::vector<std::string>& values);

// Python's list[from:to], and then one of the shares that MONAI's partition_dataset makes.
struct Part {
  std::int64_t from = 0;
  std::optional<std::int64_t> to;
  std::vector<double> shares;
  std::int64_t share = 0, share_seed = 0;
  bool shuffle_shares = false;
};
// The numbers of the items that are meant, in their order. DataError where there is none.
std::vector<std::size_t> part_of(std::size_t n, const Part& part, const std::string& where);

}  // namespace sluice
