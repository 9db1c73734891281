#include "tools/nnunet/initial_patch.h"

#include <algorithm>
#include <cmath>

namespace sluice::nnunet {
namespace {

constexpr double thick = 3;         // patch extents over the first one
constexpr double longish = 1.5;     // of a picture's, over its other
constexpr double shrunk_by = 0.85;  // allowed for
constexpr double degree = M_PI / 180;

// Row vector times the rotation matrix in the plane of axes a < b, as batchgenerators has them.
Reals rotated(Reals x, std::size_t a, std::size_t b, double angle) {
  const double c = std::cos(angle), s = std::sin(angle), xa = x[a], xb = x[b];
  const bool about_y = x.size() == 3 && a == 0 && b == 2;
  x[a] = about_y ? xa * c - xb * s : xa * c + xb * s;
  x[b] = about_y ? xa * s + xb * c : -xa * s + xb * c;
  return x;
}

}  // namespace

Spatial spatial_of(const Ints& patch) {
  const Reals extents(patch.begin(), patch.end());
  const double most = *std::max_element(extents.begin(), extents.end());
  Spatial s{{}, 30 * degree, false, false};
  if (patch.size() == 2) {
    s.turned_freely = !(most / *std::min_element(extents.begin(), extents.end()) > longish);
    s.rotation = s.turned_freely ? M_PI : 15 * degree;
  } else if (most / extents[0] > thick) {
    s.dummy_2d = true;
    s.rotation = M_PI;
  }
  const double angle = std::min(s.rotation, 90 * degree);
  Reals largest = extents;
  for (std::size_t a = 0; a < patch.size(); ++a)
    for (std::size_t b = a + 1; b < patch.size(); ++b) {
      const Reals turned = rotated(extents, a, b, angle);
      for (std::size_t d = 0; d < patch.size(); ++d)
        largest[d] = std::max(largest[d], std::abs(turned[d]));
    }
  for (std::size_t d = 0; d < patch.size(); ++d)
    s.initial.push_back(static_cast<std::int64_t>(largest[d] / shrunk_by));
  if (s.dummy_2d) s.initial[0] = patch[0];
  return s;
}

}  // namespace sluice::nnunet
