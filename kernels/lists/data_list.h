// Lists of samples: which files belong together, from a decathlon dataset.json, from items written
// in the graph, or from a folder.
//
// Invariant: a list is never empty and its order is fixed (the file's, or the names' order), so an
// item's number means the same data in every epoch and every run. Whatever keeps a list from being
// made is a DataError that names the file and the reason. No image is opened here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct DataItem {
  std::string name;                                        // "hippocampus_001"
  std::vector<std::pair<std::string, std::string>> files;  // key -> path
  std::size_t row = 0;  // of a list that says more of each item: its number there
};
using DataList = std::vector<DataItem>;

// "a/b_001.nii.gz" -> "b_001"; "series/1.2.840.7/" -> "1.2.840.7"
std::string file_stem(const std::filesystem::path& path);

// Strict JSON of at most `limit` bytes and 64 levels.
nlohmann::ordered_json read_json(const std::filesystem::path& path,
                                 std::uint64_t limit = 16u << 20);

// A path, or a list of paths, which become the fields key, key#1, key#2, ...; relative ones stand
// under `root`.
void add_files(DataItem& item, const std::string& key, const nlohmann::ordered_json& files,
               const std::filesystem::path& root, const std::string& where);

// One list of root/dataset.json: "training", "validation" or "test". Where it keeps no
// "validation" and the fraction is above 0, "training" is split as MONAI's DecathlonDataset does.
// Numbers beside an item's files, such as its "fold", are passed over.
DataList decathlon_list(const std::filesystem::path& root, const std::string& split,
                        double validation_fraction, std::uint32_t seed);

// [{"image": "a.nii.gz", "label": "b.nii.gz"}, ...], as add_files() has them.
// `where` names the list in messages.
DataList list_of_items(const nlohmann::ordered_json& items, const std::filesystem::path& root,
                       const std::string& where);

// The files of a folder whose names match a glob ("*.nii.gz"), sorted by name.
DataList list_of_files(const std::filesystem::path& folder, const std::string& pattern,
                       const std::string& key);

// The fold that a list gives each of its items; nullopt: none.
using OwnFolds = std::vector<std::optional<std::int64_t>>;

// Records of a CSV file, as RFC 4180 has it.
struct CsvColumns {
  std::vector<std::string> keys;    // with paths, relative to the root
  std::vector<std::string> values;  // with a number each
  // Several columns as one value: nested lists of columns give its shape, {"label": [[3, 4]]}.
  nlohmann::ordered_json groups;
  // What a key's or a value's column is called, or its number from 0; null: as the key.
  nlohmann::ordered_json columns;
  bool header = true;  // the first line has the columns' names; else they have numbers alone
  char delimiter = ',';
  std::string suffix;  // put behind each path
  // A value's or a group's number where a row's field is empty.
  nlohmann::ordered_json defaults;
  // {"rhythm": ["sinus", "brady"]}: a value's or a group's texts, each its place in the list.
  nlohmann::ordered_json classes;
  nlohmann::ordered_json fold;  // the name or number of the column with each row's fold; null: none
};
struct CsvNumber {
  double value = 0;
  std::optional<std::int64_t> whole;  // exact, where the field has a whole number that fits
};
struct CsvList {
  DataList items;
  struct Value {
    std::string key;
    std::vector<std::int64_t> shape;   // [] of one number
    std::size_t first = 0, count = 1;  // where its numbers stand in a row
  };
  std::vector<Value> values;
  std::vector<std::vector<CsvNumber>> numbers;  // a row an item
  OwnFolds folds;                               // where columns.fold says so
};
CsvList list_of_csv(const std::filesystem::path& file, const std::filesystem::path& root,
                    const CsvColumns& columns);

// Files below a folder by one pattern a key ("*/t1.nii.gz", "labels/*.nii.gz"; a folder where it
// ends with "/"). Files whose stars stand for the same text belong together, and that text is the
// item's name.
DataList list_of_patterns(const std::filesystem::path& root,
                          const nlohmann::ordered_json& patterns);

// Cross-validation: which part of a list is meant. Below 0 `fold` means all of it.
struct Fold {
  std::string split = "training";  // or "validation"
  std::int64_t fold = -1, folds = 5;
  std::int64_t seed = 12345;  // nnU-Net's; of 32 bits
};
// Whether each of n items is in the fold's validation, as scikit-learn's
// KFold(folds, shuffle=True, random_state=seed) says.
std::vector<bool> held_out(std::size_t n, const Fold& fold);
// Keeps the fold's items, in the list's order.
void take_fold(DataList& list, const Fold& fold);

// The items that `fold` means where the list itself says each one's: those of the fold are the
// validation, all others are for training. `where` names the list.
std::vector<std::size_t> items_of_fold(const OwnFolds& folds, const Fold& fold,
                                       const std::string& where);

// The first n items where n is given.
void limit_list(DataList& list, std::optional<std::int64_t> n);

}  // namespace sluice
