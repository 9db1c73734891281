#include "kernels/files/tiff_image.h"

#include <ATen/Functions.h>

#include <cstring>

#include "kernels/files/gzip.h"
#include "kernels/files/palette.h"
#include "kernels/files/tiff_file.h"

namespace sluice {
namespace {

// What a page is; pages of a volume are alike.
struct TiffPage {
  std::int64_t rows = 0, columns = 0, samples = 0;
  int bits = 0, format = 0, photometric = 0, compression = 0;
  int orientation = ORIENTATION_TOPLEFT;
  bool planes = false;  // one sample's pixels after the other's
  bool operator==(const TiffPage&) const = default;
  at::ScalarType type() const;
  std::int64_t pixels() const { return rows * columns * samples; }
};

at::ScalarType TiffPage::type() const {
  switch (format * 100 + bits) {
    case SAMPLEFORMAT_UINT * 100 + 1:
    case SAMPLEFORMAT_UINT * 100 + 2:
    case SAMPLEFORMAT_UINT * 100 + 4:
    case SAMPLEFORMAT_UINT * 100 + 8:
      return at::kByte;
    case SAMPLEFORMAT_UINT * 100 + 16:
      return at::kUInt16;
    case SAMPLEFORMAT_UINT * 100 + 32:
      return at::kUInt32;
    case SAMPLEFORMAT_UINT * 100 + 64:
      return at::kUInt64;
    case SAMPLEFORMAT_INT * 100 + 8:
      return at::kChar;
    case SAMPLEFORMAT_INT * 100 + 16:
      return at::kShort;
    case SAMPLEFORMAT_INT * 100 + 32:
      return at::kInt;
    case SAMPLEFORMAT_INT * 100 + 64:
      return at::kLong;
    case SAMPLEFORMAT_IEEEFP * 100 + 16:
      return at::kHalf;
    case SAMPLEFORMAT_IEEEFP * 100 + 32:
      return at::kFloat;
    case SAMPLEFORMAT_IEEEFP * 100 + 64:
      return at::kDouble;
    default:
      return at::ScalarType::Undefined;
  }
}

// [C, X, Y(, Z)] as it is looked at, by the tag Orientation: where the first row and column belong.
at::Tensor upright(const at::Tensor& image, int orientation) {
  std::vector<std::int64_t> flipped;
  if (orientation == ORIENTATION_TOPRIGHT || orientation == ORIENTATION_BOTRIGHT ||
      orientation == ORIENTATION_RIGHTBOT || orientation == ORIENTATION_LEFTBOT)
    flipped.push_back(1);
  if (orientation == ORIENTATION_BOTRIGHT || orientation == ORIENTATION_BOTLEFT ||
      orientation == ORIENTATION_RIGHTTOP || orientation == ORIENTATION_RIGHTBOT)
    flipped.push_back(2);
  const at::Tensor out = flipped.empty() ? image : image.flip(flipped);
  return orientation >= ORIENTATION_LEFTTOP ? out.transpose(1, 2) : out;
}

class TiffImage {
 public:
  TiffImage(std::span<const std::uint8_t> bytes, const std::string& name)
      : bytes_(bytes), name_(name), tiff_(bytes, name) {}

  Volume read(at::ScalarType dtype) {
    const TiffPage first = page();
    const bool has_palette = first.photometric == PHOTOMETRIC_PALETTE;
    const at::Tensor colours = has_palette ? palette(first.bits) : at::Tensor();
    std::vector<at::Tensor> slices{decoded(first)};
    for (int number = 1; !TIFFLastDirectory(tiff_.get()); ++number) {
      if (TIFFReadDirectory(tiff_.get()) != 1)
        fail("TIFF's page " + std::to_string(number) + " cannot be read: " + tiff_.said());
      if (tiff_.tag<std::uint32_t>(TIFFTAG_SUBFILETYPE, 0) &
          (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK))
        continue;
      if (has_palette) fail("TIFF has a palette and several pages");
      if (const TiffPage next = page(); next != first)
        fail("TIFF's page " + std::to_string(number) + " is " + text(next) + ", the first " +
             text(first));
      check_size(first, slices.size() + 1);
      slices.push_back(decoded(first));
    }
    at::Tensor all = slices.size() > 1 ? at::stack(slices) : slices[0].unsqueeze(0);
    const auto volume = [&](const at::Tensor& t) {
      const at::Tensor turned = upright(
          t.permute(first.planes ? at::IntArrayRef{1, 3, 2, 0} : at::IntArrayRef{3, 2, 1, 0}),
          first.orientation);
      return exactly(slices.size() > 1 ? turned : turned.squeeze(3), dtype, name_);
    };
    Volume v;
    if (has_palette || first.bits == 1) v.numbers = volume(all);
    if (has_palette)
      all = coloured(all, colours, name_ + ": TIFF");
    else if (first.bits < 8)
      all = all * (255 / ((1 << first.bits) - 1));
    v.data = volume(all);
    v.has_affine = false;
    v.disk_dtype = (first.format == SAMPLEFORMAT_UINT  ? "uint"
                    : first.format == SAMPLEFORMAT_INT ? "int"
                                                       : "float") +
                   std::to_string(std::max(8, first.bits));
    v.may_be_non_finite = first.format == SAMPLEFORMAT_IEEEFP;
    return v;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw DataError(name_ + ": " + why); }

  static std::string text(const TiffPage& p) {
    return std::to_string(p.columns) + " x " + std::to_string(p.rows) + " pixels of " +
           std::to_string(p.samples) + " times " + std::to_string(p.bits) + " bits" +
           (p.orientation == ORIENTATION_TOPLEFT
                ? ""
                : " in orientation " + std::to_string(p.orientation));
  }

  // As float32 it stays under the limit too. JPEG packs 12,288 values into a byte at most, deflate
  // and LZW fewer; a fax's white row is one bit.
  void check_size(const TiffPage& p, std::size_t pages) const {
    const auto values = static_cast<std::uint64_t>(p.pixels()) * pages;
    if (values * std::max<std::uint64_t>(4, at::elementSize(p.type())) > max_volume_bytes)
      fail("TIFF declares more than " + with_commas(max_volume_bytes) + " bytes of pixels");
    if (values / (p.bits == 1 ? 1 << 20 : 12288) > bytes_.size())
      fail("TIFF declares " + with_commas(values) + " values, more than " +
           with_commas(bytes_.size()) + " bytes can hold");
  }

  // The page that the handle stands on.
  TiffPage page() {
    tiff_.said();  // warnings of tags that libtiff does not know
    TiffPage p;
    p.rows = tiff_.tag<std::uint32_t>(TIFFTAG_IMAGELENGTH, 0);
    p.columns = tiff_.tag<std::uint32_t>(TIFFTAG_IMAGEWIDTH, 0);
    p.samples = tiff_.short_tag(TIFFTAG_SAMPLESPERPIXEL);
    p.bits = tiff_.short_tag(TIFFTAG_BITSPERSAMPLE);
    p.compression = tiff_.short_tag(TIFFTAG_COMPRESSION);
    p.photometric = tiff_.tag<std::uint16_t>(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    p.planes = p.samples > 1 && tiff_.short_tag(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
    p.orientation = tiff_.short_tag(TIFFTAG_ORIENTATION);
    p.format = tiff_.short_tag(TIFFTAG_SAMPLEFORMAT);
    if (p.format == SAMPLEFORMAT_VOID) p.format = SAMPLEFORMAT_UINT;
    constexpr std::int64_t most = 1 << 20;
    if (p.rows == 0 || p.columns == 0) fail("TIFF has no pixels");
    if (p.rows > most || p.columns > most || p.samples < 1 || p.samples > 64)
      fail("TIFF cannot have " + text(p));
    const bool jpeg = p.compression == COMPRESSION_JPEG;
    const bool one = p.samples == 1;
    const bool grey = p.photometric == PHOTOMETRIC_MINISBLACK ||
                      p.photometric == PHOTOMETRIC_MINISWHITE,
               palette = p.photometric == PHOTOMETRIC_PALETTE && one && p.bits <= 8 &&
                         p.format == SAMPLEFORMAT_UINT;
    if (p.type() == at::ScalarType::Undefined || (p.bits < 8 && !one) ||
        !(grey || palette || p.photometric == PHOTOMETRIC_RGB ||
          (p.photometric == PHOTOMETRIC_YCBCR && jpeg)))
      fail("TIFF has " + text(p) + ", sample format " + std::to_string(p.format) +
           " and photometric interpretation " + std::to_string(p.photometric) +
           "; grey, RGB and palettes are read");
    if (jpeg && p.photometric == PHOTOMETRIC_YCBCR)
      TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    check_size(p, 1);
    return p;
  }

  // [rows, columns, samples], or [samples, rows, columns] of planes.
  at::Tensor decoded(const TiffPage& p) {
    TIFF* t = tiff_.get();
    const bool tiled = TIFFIsTiled(t);
    const auto in_pixel = p.planes ? 1 : p.samples;
    std::uint32_t in_strip = 0;
    TIFFGetFieldDefaulted(t, TIFFTAG_ROWSPERSTRIP, &in_strip);
    const std::int64_t wide = tiled ? tiff_.tag<std::uint32_t>(TIFFTAG_TILEWIDTH, 0) : p.columns,
                       high = tiled ? tiff_.tag<std::uint32_t>(TIFFTAG_TILELENGTH, 0)
                                    : std::min<std::int64_t>(in_strip, p.rows);
    const auto row =
                   static_cast<std::int64_t>(tiled ? TIFFTileRowSize64(t) : TIFFScanlineSize64(t)),
               least = (wide * in_pixel * p.bits + 7) / 8;
    if (wide < 1 || high < 1 || row < least || high > (std::int64_t{1} << 33) / row)
      fail("TIFF's parts cannot be of " + std::to_string(wide) + " x " + std::to_string(high) +
           " pixels");
    FileBytes part(static_cast<std::size_t>(row * high));
    at::Tensor out = at::empty(p.planes ? at::IntArrayRef{p.samples, p.rows, p.columns}
                                        : at::IntArrayRef{p.rows, p.columns, p.samples},
                               p.type());
    auto* pixels = static_cast<std::uint8_t*>(out.data_ptr());
    const auto each = static_cast<std::int64_t>(out.element_size());
    for (std::int64_t s = 0; s < (p.planes ? p.samples : 1); ++s)
      for (std::int64_t top = 0; top < p.rows; top += high)
        for (std::int64_t left = 0; left < p.columns; left += wide) {
          const std::int64_t rows = std::min(high, p.rows - top),
                             values = std::min(wide, p.columns - left) * in_pixel;
          decode_part(tiled, left, top, s, p.compression, part, (tiled ? high : rows) * row);
          for (std::int64_t y = 0; y < rows; ++y) {
            std::uint8_t* to =
                pixels + ((s * p.rows + top + y) * p.columns + left) * in_pixel * each;
            if (p.bits < 8)
              unpack(part.data() + y * row, values, p.bits, to);
            else
              std::memcpy(to, part.data() + y * row, static_cast<std::size_t>(values * each));
          }
        }
    // White is the largest number, as Pillow has it: of more bits the numbers stay.
    const bool turned = p.photometric == PHOTOMETRIC_MINISWHITE && out.scalar_type() == at::kByte;
    return turned ? (1 << p.bits) - 1 - out : out;
  }

  // `size` bytes of a strip or tile.
  void decode_part(bool tiled, std::int64_t left, std::int64_t top, std::int64_t sample,
                   int compression, FileBytes& part, std::int64_t size) {
    const auto x = static_cast<std::uint32_t>(left), y = static_cast<std::uint32_t>(top);
    const auto s = static_cast<std::uint16_t>(sample);
    TIFF* t = tiff_.get();
    const std::uint32_t n = tiled ? TIFFComputeTile(t, x, y, 0, s) : TIFFComputeStrip(t, y, s);
    const std::uint64_t begin = TIFFGetStrileOffset(t, n), length = TIFFGetStrileByteCount(t, n);
    std::string why = tiff_.said();
    if (why.empty() && (begin > bytes_.size() || length > bytes_.size() - begin))
      fail("TIFF ends early");
    if (compression == COMPRESSION_ADOBE_DEFLATE || compression == COMPRESSION_DEFLATE)
      check_zlib(bytes_.subspan(begin, length), max_volume_bytes, name_);
    const tmsize_t got = !why.empty() ? -1
                         : tiled      ? TIFFReadEncodedTile(t, n, part.data(), size)
                                      : TIFFReadEncodedStrip(t, n, part.data(), size);
    if (why.empty()) why = tiff_.said();
    if (why.empty() && got < size) why = "it is too short";
    if (!why.empty())
      fail("TIFF's part at row " + std::to_string(top) + ", column " + std::to_string(left) +
           " is damaged: " + why);
  }

  static void unpack(const std::uint8_t* from, std::int64_t values, int bits, std::uint8_t* to) {
    for (std::int64_t i = 0; i < values; ++i) to[i] = packed_number(from, i, bits);
  }

  at::Tensor palette(int bits) const {  // [colours, 3]
    std::uint16_t* maps[3] = {};
    if (TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) != 1)
      fail("TIFF has no palette");
    at::Tensor all = at::empty({1 << bits, 3}, at::kByte);
    auto* to = all.mutable_data_ptr<std::uint8_t>();
    for (int i = 0; i < 1 << bits; ++i)
      for (const auto* map : maps) *to++ = static_cast<std::uint8_t>(map[i] >> 8);
    return all;
  }

  const std::span<const std::uint8_t> bytes_;
  const std::string& name_;
  TiffFile tiff_;
};

}  // namespace

Volume read_tiff(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const std::string name = path.string();
  const FileBytes file = read(path);
  return TiffImage(file.view(), name).read(dtype);
}

}  // namespace sluice
