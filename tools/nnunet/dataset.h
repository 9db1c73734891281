// A data set as nnU-Net's dataset.json tells it; the decathlon's file is read in the same words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/document.h"

namespace sluice::nnunet {

struct Label {
  std::string name;
  std::vector<std::int64_t> values;  // one, or a region's
};

struct Dataset {
  std::filesystem::path root;
  std::string name;                   // "Dataset004_Hippocampus"
  std::vector<std::string> channels;  // "MRI"; by number
  std::vector<Label> labels;          // as listed, with background and ignore
  std::optional<std::int64_t> ignore;
  bool regions = false;
  std::vector<std::int64_t> region_order;  // regions_class_order
  std::int64_t training = 0;               // numTraining
  std::string ending;                      // ".nii.gz"
  std::string reader;                      // "SimpleITKIO": what nnU-Net would read it with
  bool reader_named = false;               // by overwrite_image_reader_writer, and not by ending
  bool decathlon = false;

  // Output channels of a network: one a class with background, or one a region.
  std::int64_t outputs() const;
  // The numbers of the foreground classes in order, without regions.
  std::vector<std::int64_t> classes() const;
};

// DataError with file, line and column: members that lack, labels that are not 0, 1, 2, ...,
// background that is not 0, ignore that is not the highest, regions without an order, a reader that
// is not nnU-Net's or that does not read such files.
Dataset read_dataset(const std::filesystem::path& folder);

// A JSON file with places; DataError with the first thing that is wrong with its text.
DocumentPtr read_json_file(const std::filesystem::path& file);
// "FILE:LINE:COLUMN: MESSAGE", thrown as a DataError.
[[noreturn]] void fail_at(const Place& place, const std::string& message);

}  // namespace sluice::nnunet
