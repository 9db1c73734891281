// Lists of samples whose files belong together by their position, as Python scripts pair them:
// sorted(glob(images)) with sorted(glob(labels)), a column of a CSV file, a list in a JSON file;
// and which part of such a list is meant.
#pragma once

#include "kernels/lists/data_list.h"

namespace sluice {

// "images/*.nii.gz", or {"glob": ...} or {"csv": file, "column": name}, with
// "prefix": text before each name, "replace": [[old, new], ...] done to each name. Error: it is
// none of these.
// In the order of Python's sorted(), or of the rows.
std::vector<std::string> names_of(const nlohmann::ordered_json& list, const std::string& where);

// One list a key, side by side; as many samples as the shortest has.
DataList list_side_by_side(const nlohmann::ordered_json& lists, const std::string& where);

// Numbers beside the files of a JSON list: for each sample those of `values`.
struct JsonList {
  struct Numbers {
    std::vector<std::int64_t> shape;  // [] of a number, [N] of a list, [N, K] of a list of lists
    std::vector<double> all;
  };
  DataList items;
  OwnFolds folds;  // each sample's "fold"
  std::vector<std::vector<std::optional<Numbers>>> values;
};
// file[key], or the whole file where `key` is empty: dictionaries, or texts, which are images.
// Files as list_of_items() has them. `allow_missing`: a sample may lack some of the keys and
// values.
JsonList list_of_json(const std::filesystem::path& file, const std::string& key,
                      const std::filesystem::path& root, const std::vector<std::string>& keys,
                      const std::vector<std::string>& values, bool allow_missing = false);

// Python's list[from:to], and then some of the parts that MONAI's partition_dataset makes by ratios
// or by number, one after the other as its select_cross_validation_folds joins them.
struct Part {
  std::int64_t from = 0;
  std::optional<std::int64_t> to;
  std::vector<double> shares;  // the ratios
  std::optional<std::int64_t> num_partitions;
  std::vector<std::int64_t> share{0};
  std::int64_t share_seed = 0;
  bool shuffle_shares = false;
};
// The numbers of the items that are meant. DataError where there is none.
std::vector<std::size_t> part_of(std::size_t n, const Part& part, const std::string& where);

}  // namespace sluice
