#include "kernels/image/distortion.h"

#include <algorithm>
#include <string>

#include "engine/base/error.h"

namespace sluice {

std::vector<double> distorted_axis(std::int64_t n, const std::vector<double>& steps) {
  const auto cells = static_cast<std::int64_t>(steps.size()) - 1;
  const std::int64_t size = cells > 0 ? n / cells : 0;
  if (size < 1)
    throw DataError("an axis of " + std::to_string(n) + " voxels cannot have " +
                    std::to_string(cells) + " cells");
  std::vector<double> at(static_cast<std::size_t>(n));
  double begun = 0;
  for (std::int64_t i = 0; i <= cells; ++i) {
    const std::int64_t start = i * size;
    const bool whole = start + size <= n;
    const std::int64_t end = whole ? start + size : n;
    const double ended = whole ? begun + static_cast<double>(size) * steps[i] : double(n);
    const double pace = end - start > 1 ? (ended - begun) / double(end - start - 1) : 0;
    for (std::int64_t k = start; k < end; ++k) at[k] = begun + double(k - start) * pace;
    begun = ended;
  }
  for (std::int64_t k = (cells + 1) * size; k < n; ++k)
    at[k] = begun + double(k - (cells + 1) * size);
  return at;
}

}  // namespace sluice
