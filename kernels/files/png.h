// A picture in memory and its PNG file.
//
// Invariant: rows run from the top, three bytes a pixel: red, green, blue; the same picture gives
// the same bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

using Rgb = std::array<std::uint8_t, 3>;

struct Picture {
  int width = 0, height = 0;
  std::vector<Rgb> pixels;

  Picture() = default;
  Picture(int w, int h)
      : width(w), height(h), pixels(static_cast<std::size_t>(w) * static_cast<std::size_t>(h)) {}
  Rgb& at(int x, int y) {
    return pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)];
  }
  const Rgb& at(int x, int y) const { return const_cast<Picture&>(*this).at(x, y); }
};

std::string encode_png(const Picture& picture);  // the file's bytes
// Rows from the top, of one byte a pixel (gray) or three.
std::string encode_png(const std::uint8_t* pixels, int width, int height, int channels);

}  // namespace sluice
