#include "kernels/lists/cifar.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/lists/data_list.h"

namespace sluice {
namespace {

constexpr std::size_t pixels = 3 * 32 * 32, record_bytes = 1 + pixels;

}  // namespace

CifarBatches::CifarBatches(const std::filesystem::path& folder, bool training) {
  for (const DataItem& item :
       list_of_files(folder, training ? "data_batch_*.bin" : "test_batch.bin", "image")) {
    File file{item.files[0].second, size_, read_file(item.files[0].second)};
    if (file.bytes.size() % record_bytes != 0)
      throw DataError(file.path + ": " + with_commas(file.bytes.size()) +
                      " bytes are no whole number of records of " + with_commas(record_bytes));
    const std::size_t n = file.bytes.size() / record_bytes;
    for (std::size_t i = 0; i < n; ++i)
      if (const int label = file.bytes.data()[i * record_bytes]; label > 9)
        throw DataError(file.path + ": record " + std::to_string(i) + " has the label " +
                        std::to_string(label) + "; there are 0 to 9");
    size_ += n;
    files_.push_back(std::move(file));
  }
}

const CifarBatches::File& CifarBatches::file_of(std::size_t i) const {
  const auto after = std::upper_bound(files_.begin(), files_.end(), i,
                                      [](std::size_t n, const File& f) { return n < f.first; });
  return *(after - 1);
}

const std::uint8_t* CifarBatches::record(std::size_t i) const {
  const File& file = file_of(i);
  return file.bytes.data() + (i - file.first) * record_bytes;
}

std::string CifarBatches::name(std::size_t i) const {
  const File& file = file_of(i);
  return file_stem(file.path) + ":" + std::to_string(i - file.first);
}

at::Tensor CifarBatches::image(std::size_t i) const {
  at::Tensor image = at::empty({3, 32, 32}, at::kFloat);
  float* out = image.data_ptr<float>();
  const std::uint8_t* in = record(i) + 1;
  for (std::size_t k = 0; k < pixels; ++k) out[k] = static_cast<float>(in[k]) / 255.f;
  return image;
}

}  // namespace sluice
