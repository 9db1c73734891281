// Image files without a library.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace shell {

// A NIfTI file of n^3 voxels.
inline std::string nifti(std::int16_t n) {
  std::string file(352 + static_cast<std::size_t>(n) * n * n * 4, '\0');
  const auto put = [&file](std::size_t at, auto value) {
    std::memcpy(file.data() + at, &value, sizeof value);
  };
  put(0, std::int32_t{348});
  const std::int16_t dim[] = {3, n, n, n, 1, 1, 1, 1};
  for (std::size_t i = 0; i < 8; ++i) put(40 + 2 * i, dim[i]);
  put(70, std::int16_t{16});  // float32
  put(72, std::int16_t{32});
  for (std::size_t i = 0; i < 8; ++i) put(76 + 4 * i, 1.0f);
  put(108, 352.0f);
  put(112, 1.0f);
  put(252, std::int16_t{1});  // the voxel grid is the world's
  file.replace(344, 4, std::string("n+1\0", 4));
  return file;
}

}  // namespace shell
