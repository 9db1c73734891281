// IDX files, as MNIST and Fashion-MNIST come in: a file of images and one of labels, plain or .gz.
//
// Invariant: both files are whole, their bytes are unsigned, and there are as many labels as
// images.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "kernels/files/file_io.h"

namespace sluice {

class IdxImages {
 public:
  IdxImages() = default;
  // train-images-idx3-ubyte and train-labels-idx1-ubyte where `training`, else t10k-...
  IdxImages(const std::filesystem::path& folder, bool training);

  std::size_t size() const { return size_; }
  std::int64_t classes() const { return classes_; }  // one more than the highest label
  std::int64_t label(std::size_t i) const { return labels_.data()[first_label + i]; }
  at::Tensor image(std::size_t i) const;  // float32 [1, rows, columns], 0 to 1
  const std::string& path(std::size_t) const { return path_; }
  std::string name(std::size_t i) const;  // "train-images-idx3-ubyte:17"

 private:
  static constexpr std::size_t first_pixel = 16, first_label = 8;
  std::string path_;
  FileBytes images_, labels_;
  std::size_t size_ = 0;
  std::int64_t rows_ = 0, columns_ = 0, classes_ = 0;
};

}  // namespace sluice
