// A slide of gigapixels in a file of 13 MB: a TIFF of 16 tiles, which its table of places names
// again and again.
//
// Tile (i, j) is tile (7 i + j) % 16 of the few; its pixel (y, x) is {its number, y % 256, x %
// 256}.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

struct VastSlide {
  static constexpr std::int64_t tile = 512;
  std::int64_t size;  // rows and columns, a multiple of `tile`

  std::array<int, 3> pixel(std::int64_t y, std::int64_t x) const {
    return {static_cast<int>(few(y / tile, x / tile)), static_cast<int>(y % 256),
            static_cast<int>(x % 256)};
  }
  void write(const std::filesystem::path& path) const {
    std::string file("II*\0", 4);
    put(file, 0, 4);  // where the directory is, once that is known
    std::array<std::uint32_t, 16> at{}, bytes{};
    for (std::uint32_t n = 0; n < 16; ++n) {
      at[n] = static_cast<std::uint32_t>(file.size());
      bytes[n] = tile * tile * 3;
      for (std::int64_t y = 0; y < tile; ++y)
        for (std::int64_t x = 0; x < tile; ++x)
          for (const std::int64_t c : {std::int64_t{n}, y, x})
            put(file, static_cast<std::uint32_t>(c), 1);
    }
    const std::int64_t across = size / tile;
    const auto table = [&](const std::array<std::uint32_t, 16>& of) {
      const auto begin = static_cast<std::uint32_t>(file.size());
      for (std::int64_t i = 0; i < across; ++i)
        for (std::int64_t j = 0; j < across; ++j) put(file, of[few(i, j)], 4);
      return begin;
    };
    const auto count = static_cast<std::uint32_t>(across * across),
               side = static_cast<std::uint32_t>(size), offsets = table(at), sizes = table(bytes),
               bits = static_cast<std::uint32_t>(file.size());
    for (int c = 0; c < 3; ++c) put(file, 8, 2);
    put(file, 0, 2);
    const auto directory = static_cast<std::uint32_t>(file.size());
    const std::vector<std::array<std::uint32_t, 4>> entries{
        {256, 4, 1, side}, {257, 4, 1, side},        {258, 3, 3, bits},     {259, 3, 1, 1},
        {262, 3, 1, 2},    {277, 3, 1, 3},           {284, 3, 1, 1},        {322, 4, 1, tile},
        {323, 4, 1, tile}, {324, 4, count, offsets}, {325, 4, count, sizes}};
    put(file, static_cast<std::uint32_t>(entries.size()), 2);
    for (const auto& [tag, type, number, value] : entries) {
      put(file, tag, 2);
      put(file, type, 2);
      put(file, number, 4);
      put(file, value, 4);
    }
    put(file, 0, 4);
    std::string head;
    put(head, directory, 4);
    file.replace(4, 4, head);
    std::ofstream(path, std::ios::binary) << file;
  }

 private:
  static std::size_t few(std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>((7 * i + j) % 16);
  }
  static void put(std::string& to, std::uint32_t value, int bytes) {
    for (int b = 0; b < bytes; ++b) to += static_cast<char>(value >> (8 * b) & 255);
  }
};
