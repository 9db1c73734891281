#include "kernels/volume.h"

#include <cmath>

#include "engine/error.h"
#include "kernels/itk_image.h"
#include "kernels/nifti.h"

namespace sluice {

std::array<double, 3> spacing_of(const Matrix4& m) {
  std::array<double, 3> spacing;
  for (std::size_t j = 0; j < 3; ++j)
    spacing[j] = std::sqrt(m[j] * m[j] + m[4 + j] * m[4 + j] + m[8 + j] * m[8 + j]);
  return spacing;
}

Volume read_volume(const std::filesystem::path& path, at::ScalarType dtype) {
  const std::string name = path.filename().string();
  if (name.ends_with(".nii") || name.ends_with(".nii.gz")) return read_nifti(path, dtype);
  if (name.ends_with(".nrrd")) return read_nrrd(path, dtype);
  if (name.ends_with(".mha")) return read_meta_image(path, dtype);
  if (name.ends_with(".png")) return read_png(path, dtype);
  throw DataError(path.string() +
                  ": unknown extension; .nii, .nii.gz, .nrrd, .mha and .png are read");
}

}  // namespace sluice
