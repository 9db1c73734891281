// Small .nii files for the tests of `new`, which link no LibTorch: NIfTI-1, float32.
#pragma once

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

namespace nii {

using Size = std::array<int, 3>;
using Spacing = std::array<float, 3>;

// `value` of channel c and voxel x, y, z; several channels are the file's fourth axis.
inline void write_channels(const std::filesystem::path& path, Size size, Spacing spacing,
                           int channels, const std::function<float(int, int, int, int)>& value) {
  std::string bytes(352, '\0');
  const auto put = [&](std::size_t at, auto v) { std::memcpy(&bytes[at], &v, sizeof v); };
  put(0, std::int32_t{348});
  put(40, static_cast<std::int16_t>(channels > 1 ? 4 : 3));
  put(48, static_cast<std::int16_t>(channels));
  put(70, std::int16_t{16});
  put(72, std::int16_t{32});
  put(108, 352.0f);
  put(254, std::int16_t{2});
  for (std::size_t a = 0; a < 3; ++a) {
    put(42 + 2 * a, static_cast<std::int16_t>(size[a]));
    put(80 + 4 * a, spacing[a]);
    put(280 + 20 * a, spacing[a]);  // the diagonal of srow
  }
  std::memcpy(&bytes[344], "n+1", 4);
  for (int c = 0; c < channels; ++c)
    for (int z = 0; z < size[2]; ++z)
      for (int y = 0; y < size[1]; ++y)
        for (int x = 0; x < size[0]; ++x) {
          const float v = value(c, x, y, z);
          bytes.append(reinterpret_cast<const char*>(&v), 4);
        }
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

// `value` of voxel x, y, z.
inline void write(const std::filesystem::path& path, Size size, Spacing spacing,
                  const std::function<float(int, int, int)>& value) {
  write_channels(path, size, spacing, 1, [&](int, int x, int y, int z) { return value(x, y, z); });
}

// A ball of radius 5 about the middle, and an image in which it is brighter.
inline bool in_ball(const Size& n, int x, int y, int z) {
  const double dx = x - n[0] / 2, dy = y - n[1] / 2, dz = z - n[2] / 2;
  return dx * dx + dy * dy + dz * dz < 25;
}

inline void write_pair(const std::filesystem::path& image, const std::filesystem::path& label,
                       Size n, Spacing spacing, float foreground = 1, float low = 0) {
  write(image, n, spacing, [&](int x, int y, int z) {
    return low + float((x * 7 + y * 5 + z * 3) % 40) + (in_ball(n, x, y, z) ? 100.0f : 0.0f);
  });
  if (!label.empty())
    write(label, n, spacing,
          [&](int x, int y, int z) { return in_ball(n, x, y, z) ? foreground : 0.0f; });
}

}  // namespace nii
