#include "kernels/lists/idx.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/files/gzip.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// "train-images-idx3-ubyte", the dot in place of the second hyphen, either with .gz.
fs::path find(const fs::path& folder, const std::string& stem, const std::string& ending) {
  std::error_code problem;
  for (const char* joint : {"-", "."})
    for (const char* gz : {"", ".gz"}) {
      std::string name = stem;
      name.append(joint).append(ending).append(gz);
      if (fs::exists(folder / name, problem)) return folder / name;
    }
  throw DataError((folder / (stem + "-" + ending)).string() + ": no such file, nor with .gz");
}

FileBytes read(const fs::path& file) {
  FileBytes bytes = read_file(file);
  return is_gzip(bytes.view()) ? gunzip_single(bytes.view(), max_volume_bytes, file.string())
                               : std::move(bytes);
}

std::uint64_t big_endian(const FileBytes& b, std::size_t at) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < 4; ++i) n = n << 8 | b.data()[at + i];
  return n;
}

// Checks type, axes and length; the first axis.
std::size_t check(const FileBytes& b, std::size_t axes, const std::string& name) {
  const std::size_t front = 4 + 4 * axes;
  if (b.size() < front || b.data()[0] != 0 || b.data()[1] != 0 || b.data()[2] != 8 ||
      b.data()[3] != axes)
    throw DataError(name + ": is no IDX file of bytes with " + std::to_string(axes) + " axes");
  std::uint64_t bytes = 1;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::uint64_t n = big_endian(b, 4 + 4 * a);
    if (n == 0 || n > max_volume_bytes / bytes)
      throw DataError(name + ": has an axis of " + std::to_string(n));
    bytes *= n;
  }
  if (b.size() != front + bytes)
    throw DataError(name + (b.size() < front + bytes ? ": ends early" : ": is too long") +
                    " (expected " + with_commas(front + bytes) + " bytes, got " +
                    with_commas(b.size()) + ")");
  return big_endian(b, 4);
}

}  // namespace

IdxImages::IdxImages(const fs::path& folder, bool training) {
  const std::string stem = training ? "train" : "t10k";
  const fs::path images = find(folder, stem + "-images", "idx3-ubyte");
  const fs::path labels = find(folder, stem + "-labels", "idx1-ubyte");
  path_ = images.string();
  images_ = read(images);
  labels_ = read(labels);
  size_ = check(images_, 3, path_);
  rows_ = static_cast<std::int64_t>(big_endian(images_, 8));
  columns_ = static_cast<std::int64_t>(big_endian(images_, 12));
  if (const std::size_t n = check(labels_, 1, labels.string()); n != size_)
    throw DataError(labels.string() + ": has " + with_commas(n) + " labels for " +
                    with_commas(size_) + " images");
  classes_ = 1 + *std::max_element(labels_.data() + first_label, labels_.data() + labels_.size());
}

std::string IdxImages::name(std::size_t i) const {
  fs::path name = fs::path(path_).filename();
  if (name.extension() == ".gz") name = name.stem();
  return name.string() + ":" + std::to_string(i);
}

at::Tensor IdxImages::image(std::size_t i) const {
  at::Tensor image = at::empty({1, rows_, columns_}, at::kFloat);
  float* out = image.data_ptr<float>();
  const auto pixels = static_cast<std::size_t>(rows_ * columns_);
  const std::uint8_t* in = images_.data() + first_pixel + i * pixels;
  for (std::size_t k = 0; k < pixels; ++k) out[k] = static_cast<float>(in[k]) / 255.f;
  return image;
}

}  // namespace sluice
