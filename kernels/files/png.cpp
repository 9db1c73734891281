#include "kernels/files/png.h"

#include <png.h>

#include <cstring>

#include "engine/base/error.h"

namespace sluice {

std::string encode_png(const Picture& picture) {
  static_assert(sizeof(Rgb) == 3);
  return encode_png(picture.pixels.empty() ? nullptr : picture.pixels.front().data(), picture.width,
                    picture.height, 3);
}

std::string encode_png(const std::uint8_t* pixels, int width, int height, int channels) {
  png_image head;
  std::memset(&head, 0, sizeof head);
  head.version = PNG_IMAGE_VERSION;
  head.width = static_cast<png_uint_32>(width);
  head.height = static_cast<png_uint_32>(height);
  head.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  head.flags = PNG_IMAGE_FLAG_FAST;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(head), '\0');
  png_alloc_size_t size = bytes.size();
  if (!png_image_write_to_memory(&head, bytes.data(), &size, 0, pixels, 0, nullptr))
    throw DataError(std::string("cannot make a PNG picture: ") + head.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace sluice
