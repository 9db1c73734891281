#include "kernels/files/png_image.h"

#include <ATen/Functions.h>
#include <png.h>

#include <cstdio>
#include <cstring>

#include "engine/base/error.h"
#include "kernels/files/image_check.h"
#include "kernels/files/palette.h"

namespace sluice {
namespace {

// libpng reports errors by a callback that must not return and is left by a jump: so the functions
// that jump keep nothing that has a destructor.
class PngDecoder {
 public:
  explicit PngDecoder(std::span<const std::uint8_t> file) : left_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, auto) {});
    if (png_) info_ = png_create_info_struct(png_);
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;

  // Pixels come as bytes, or as words of this machine's order; numbers of fewer bits as they are.
  bool read_header() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_read_fn(png_, this, take);
    png_read_info(png_, info_);
    bits = png_get_bit_depth(png_, info_);
    palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
    png_set_packing(png_);
    png_set_swap(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    width = png_get_image_width(png_, info_);
    height = png_get_image_height(png_, info_);
    channels = png_get_channels(png_, info_);
    return true;
  }
  bool read_pixels(std::uint8_t* pixels) {
    if (setjmp(png_jmpbuf(png_))) return false;
    const std::size_t row = png_get_rowbytes(png_, info_);
    for (int pass = 0; pass < passes_; ++pass)
      for (std::int64_t y = 0; y < height; ++y)
        png_read_row(png_, pixels + static_cast<std::size_t>(y) * row, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }
  at::Tensor colours() const {  // [colours, 3]
    png_colorp first = nullptr;
    int n = 0;
    png_get_PLTE(png_, info_, &first, &n);
    at::Tensor all = at::empty({n, 3}, at::kByte);
    auto* to = all.mutable_data_ptr<std::uint8_t>();
    for (int i = 0; i < n; ++i)
      for (const auto v : {first[i].red, first[i].green, first[i].blue}) *to++ = v;
    return all;
  }
  const char* message() const { return text_; }

  std::int64_t width = 0, height = 0, channels = 0;
  int bits = 0;
  bool palette = false;

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp why) {
    auto& self = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self.text_, sizeof self.text_, "%s", why);
    png_longjmp(png, 1);
  }
  static void take(png_structp png, png_bytep to, std::size_t n) {
    auto& self = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (n > self.left_.size()) png_error(png, "PNG ends early");
    std::memcpy(to, self.left_.data(), n);
    self.left_ = self.left_.subspan(n);
  }

  std::span<const std::uint8_t> left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  char text_[256] = "";
};

}  // namespace

Volume read_png(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const std::string name = path.string();
  const FileBytes file = read(path);
  check_png(file.view(), name);
  PngDecoder png(file.view());
  if (!png.read_header()) throw DataError(name + ": " + png.message());
  const bool words = png.bits == 16;
  at::Tensor pixels =
      at::empty({png.height, png.width, png.channels}, words ? at::kUInt16 : at::kByte);
  if (!png.read_pixels(static_cast<std::uint8_t*>(pixels.data_ptr())))
    throw DataError(name + ": " + png.message());
  const auto volume = [&](const at::Tensor& t) {
    return exactly(t.permute({2, 1, 0}), dtype, name);
  };
  Volume v;
  v.has_affine = false;
  v.disk_dtype = words ? "uint16" : "uint8";
  if (png.palette || png.bits == 1) v.numbers = volume(pixels);
  if (png.palette)
    pixels = coloured(pixels, png.colours(), name + ":");
  else if (png.bits < 8)
    pixels = pixels * (255 / ((1 << png.bits) - 1));
  v.data = volume(pixels);
  return v;
}

}  // namespace sluice
