#include "kernels/files/bmp.h"

#include <ATen/Functions.h>

#include <array>
#include <cstdlib>

#include "engine/base/error.h"
#include "kernels/files/palette.h"

namespace sluice {
namespace {

class Bmp {
 public:
  Bmp(std::span<const std::uint8_t> file, const std::string& name) : file_(file), name_(name) {
    if (file.size() < 2 || file[0] != 'B' || file[1] != 'M') fail("is no BMP file");
    if (file.size() < 54) fail("BMP ends early");
    const std::uint32_t compression = number(30);
    bits_ = static_cast<int>(number(28) & 0xffff);
    width_ = static_cast<std::int32_t>(number(18));
    const std::int64_t height = static_cast<std::int32_t>(number(22));
    height_ = std::abs(height);
    top_down_ = height < 0;
    first_ = number(10);
    header_ = number(14);
    if (header_ < 40) fail("BMP has a header of OS/2");
    if (compression != 0) fail("BMP is compressed, or has bit fields");
    if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 24 && bits_ != 32)
      fail("BMP has " + std::to_string(bits_) + " bits a pixel; 1, 4, 8, 24 and 32 are read");
    if (width_ <= 0 || height_ == 0) fail("BMP has no pixels");
    row_ = (static_cast<std::uint64_t>(width_) * static_cast<std::uint64_t>(bits_) + 31) / 32 * 4;
    if (first_ > file.size() || row_ * static_cast<std::uint64_t>(height_) > file.size() - first_)
      fail("BMP ends early");
  }

  Volume read(at::ScalarType dtype) const {
    Volume v;
    v.has_affine = false;
    v.disk_dtype = "uint8";
    const at::Tensor pixels = bits_ > 8 ? colours() : numbers();
    if (bits_ > 8) {
      v.data = exactly(pixels.permute({2, 1, 0}), dtype, name_);
      return v;
    }
    const at::Tensor p = palette();
    const bool grey = p.eq(p.narrow(1, 0, 1)).all().item<bool>();
    const at::Tensor shown = coloured(pixels, p.narrow(1, 0, grey ? 1 : 3), name_ + ": BMP");
    v.data = exactly(shown.permute({2, 1, 0}), dtype, name_);
    if (!grey || !shown.equal(pixels)) v.numbers = exactly(pixels.permute({2, 1, 0}), dtype, name_);
    return v;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw DataError(name_ + ": " + why); }

  std::uint32_t number(std::size_t at) const {
    return file_[at] | file_[at + 1] << 8 | file_[at + 2] << 16 |
           std::uint32_t{file_[at + 3]} << 24;
  }
  const std::uint8_t* row(std::int64_t y) const {
    return file_.data() + first_ +
           row_ * static_cast<std::uint64_t>(top_down_ ? y : height_ - 1 - y);
  }

  at::Tensor colours() const {  // [rows, columns, 3] of blue, green, red and perhaps a filler
    at::Tensor out = at::empty({height_, width_, 3}, at::kByte);
    auto* to = out.mutable_data_ptr<std::uint8_t>();
    for (std::int64_t y = 0; y < height_; ++y)
      for (std::int64_t x = 0; x < width_; ++x)
        for (int c = 2; c >= 0; --c) *to++ = row(y)[x * (bits_ / 8) + c];
    return out;
  }

  at::Tensor numbers() const {  // [rows, columns, 1]
    at::Tensor out = at::empty({height_, width_, 1}, at::kByte);
    auto* to = out.mutable_data_ptr<std::uint8_t>();
    for (std::int64_t y = 0; y < height_; ++y)
      for (std::int64_t x = 0; x < width_; ++x) *to++ = packed_number(row(y), x, bits_);
    return out;
  }

  at::Tensor palette() const {  // [colours, 3]
    const std::uint32_t used = number(46), most = 1u << bits_, n = used == 0 ? most : used;
    const std::uint64_t begin = 14 + std::uint64_t{header_};
    if (n > most || begin + 4ull * n > file_.size()) fail("BMP has a palette that cannot be true");
    at::Tensor out = at::empty({n, 3}, at::kByte);
    auto* to = out.mutable_data_ptr<std::uint8_t>();
    for (std::uint32_t i = 0; i < n; ++i)
      for (std::uint64_t c = 3; c-- > 0;) *to++ = file_[begin + 4 * i + c];
    return out;
  }

  const std::span<const std::uint8_t> file_;
  const std::string& name_;
  int bits_ = 0;
  std::int64_t width_ = 0, height_ = 0;
  bool top_down_ = false;
  std::uint32_t first_ = 0, header_ = 0;
  std::uint64_t row_ = 0;
};

}  // namespace

Volume read_bmp(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const std::string name = path.string();
  const FileBytes file = read(path);
  return Bmp(file.view(), name).read(dtype);
}

}  // namespace sluice
