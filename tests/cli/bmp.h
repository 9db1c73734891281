// Pictures for tests of the command line.
#pragma once

#include <cstdint>
#include <string>

// A BMP of 24 bits: a field of one brightness with a square whose place tells the class.
inline std::string bmp(int w, int h, int brightness, int square) {
  std::string b = "BM";
  const auto put = [&](std::uint32_t n, int bytes) {
    for (int i = 0; i < bytes; ++i) b.push_back(static_cast<char>(n >> 8 * i));
  };
  const int row = (w * 3 + 3) / 4 * 4;
  for (int n : {54 + row * h, 0, 54, 40, w, h}) put(static_cast<std::uint32_t>(n), 4);
  put(1, 2);
  put(24, 2);
  for (int i = 0; i < 6; ++i) put(0, 4);
  for (int y = 0; y < h; ++y) {
    std::string line;
    for (int x = 0; x < w; ++x)
      line.append(3, static_cast<char>(x / 8 == square && y / 8 == square ? 250 : brightness));
    line.resize(static_cast<std::size_t>(row));
    b += line;
  }
  return b;
}
