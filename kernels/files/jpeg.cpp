#include "kernels/files/jpeg.h"

#include <ATen/Functions.h>

#include <csetjmp>
#include <cstdio>
// After cstdio, which it needs and does not include.
#include <jpeglib.h>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"

namespace sluice {
namespace {

// A block of 8 x 8 pixels takes a bit at least, and a chroma's block stands for at most 8 of them.
constexpr std::uint64_t most_pixels_a_byte = 8 * 64 * 8;

// libjpeg reports by a callback that must not return; a C library is left by a jump, not by an
// exception. So the functions that jump keep nothing that has a destructor.
class Decoder {
 public:
  explicit Decoder(const FileBytes& file) : file_(file) {
    c_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = fail;
    errors_.base.emit_message = warn;
    jpeg_create_decompress(&c_);
  }
  ~Decoder() { jpeg_destroy_decompress(&c_); }
  Decoder(const Decoder&) = delete;

  bool read_header() {
    if (setjmp(errors_.jump)) return false;
    jpeg_mem_src(&c_, file_.data(), file_.size());
    jpeg_read_header(&c_, TRUE);
    c_.out_color_space = c_.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_calc_output_dimensions(&c_);
    return true;
  }
  // Rows of `row_bytes` each.
  bool read_pixels(std::uint8_t* pixels, std::size_t row_bytes) {
    if (setjmp(errors_.jump)) return false;
    jpeg_start_decompress(&c_);
    while (c_.output_scanline < c_.output_height) {
      JSAMPROW row = pixels + c_.output_scanline * row_bytes;
      jpeg_read_scanlines(&c_, &row, 1);
    }
    jpeg_finish_decompress(&c_);
    return true;
  }
  std::int64_t width() const { return c_.output_width; }
  std::int64_t height() const { return c_.output_height; }
  std::int64_t channels() const { return c_.num_components == 1 ? 1 : 3; }
  bool is_cmyk() const {
    return c_.jpeg_color_space == JCS_CMYK || c_.jpeg_color_space == JCS_YCCK;
  }
  const char* message() const { return errors_.text; }

 private:
  struct Errors {
    jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
    std::jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
  };
  static void fail(j_common_ptr c) {
    auto* errors = reinterpret_cast<Errors*>(c->err);
    errors->base.format_message(c, errors->text);
    std::longjmp(errors->jump, 1);
  }
  static void warn(j_common_ptr c, int level) {
    if (level < 0) fail(c);  // above: remarks
  }

  const FileBytes& file_;
  Errors errors_{};
  jpeg_decompress_struct c_{};
};

}  // namespace

Volume read_jpeg(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const std::string name = path.string();
  const FileBytes file = read(path);
  Decoder decoder(file);
  if (!decoder.read_header()) throw DataError(name + ": " + decoder.message());
  if (decoder.is_cmyk())
    throw DataError(name + ": is a CMYK JPEG, of four inks; grey and RGB ones are read");
  const std::int64_t w = decoder.width(), h = decoder.height(), c = decoder.channels();
  if (static_cast<std::uint64_t>(w * h * c) > max_volume_bytes)
    throw DataError(name + ": declares more than " + with_commas(max_volume_bytes) + " bytes");
  if (static_cast<std::uint64_t>(w * h) > most_pixels_a_byte * file.size())
    throw DataError(name + ": declares " + with_commas(static_cast<std::uint64_t>(w * h)) +
                    " pixels, more than " + with_commas(file.size()) + " bytes can hold");
  at::Tensor rows = at::empty({h, w, c}, at::kByte);
  if (!decoder.read_pixels(rows.data_ptr<std::uint8_t>(), static_cast<std::size_t>(w * c)))
    throw DataError(name + ": " + decoder.message());
  Volume v;
  v.data = rows.permute({2, 1, 0}).to(dtype, false, true, at::MemoryFormat::Contiguous);
  v.has_affine = false;
  v.disk_dtype = "uint8";
  return v;
}

}  // namespace sluice
