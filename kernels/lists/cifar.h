// CIFAR-10's binary batches: records of a label byte and 32 x 32 pixels, a plane each for red,
// green and blue, row by row.
//
// Invariant: every record of every file is there, in the files' order, and its label is 0 to 9.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/files/file_io.h"

namespace sluice {

class CifarBatches {
 public:
  CifarBatches() = default;
  // data_batch_*.bin where `training`, else test_batch.bin.
  CifarBatches(const std::filesystem::path& folder, bool training);

  std::size_t size() const { return size_; }
  std::int64_t classes() const { return 10; }
  std::int64_t label(std::size_t i) const { return *record(i); }
  at::Tensor image(std::size_t i) const;  // float32 [3, 32, 32] = [C, row, column], 0 to 1
  const std::string& path(std::size_t i) const { return file_of(i).path; }
  std::string name(std::size_t i) const;  // "data_batch_1:17"

 private:
  struct File {
    std::string path;
    std::size_t first;  // number of its first record
    FileBytes bytes;
  };
  const File& file_of(std::size_t i) const;
  const std::uint8_t* record(std::size_t i) const;

  std::vector<File> files_;
  std::size_t size_ = 0;
};

}  // namespace sluice
