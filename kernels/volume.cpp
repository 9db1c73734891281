#include "kernels/volume.h"

#include <cmath>

#include "engine/error.h"
#include "kernels/nifti.h"

namespace sluice {

std::array<double, 3> spacing_of(const Matrix4& m) {
  std::array<double, 3> spacing;
  for (std::size_t j = 0; j < 3; ++j)
    spacing[j] = std::sqrt(m[j] * m[j] + m[4 + j] * m[4 + j] + m[8 + j] * m[8 + j]);
  return spacing;
}

}  // namespace sluice
