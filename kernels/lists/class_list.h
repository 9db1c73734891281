// Lists of images by class: a folder with one sub-folder for each class.
//
// Invariant: classes are the names of the sub-folders that are not hidden, sorted, and a class's
// number is its place among them, whichever split is taken; items are sorted by class and path.
// A folder that cannot be such a list is a DataError that says why.
#pragma once

#include "kernels/lists/data_list.h"

namespace sluice {

struct ClassList {
  std::vector<std::string> classes;
  DataList items;                    // files: {key, path}
  std::vector<std::int64_t> labels;  // by item
};

// Files whose extension read_volume() knows, also in folders below the class's (walk.h).
ClassList class_folder(const std::filesystem::path& root, const std::string& key);

// "training" or "validation" of MONAI's split of the whole list (split_indices).
ClassList split_classes(const ClassList& all, const std::string& split, double validation_fraction,
                        std::uint32_t seed);

}  // namespace sluice
