#include "kernels/files/palette.h"

#include <ATen/Functions.h>

#include "engine/base/error.h"

namespace sluice {

at::Tensor coloured(const at::Tensor& numbers, const at::Tensor& palette, const std::string& what) {
  if (numbers.max().item<std::int64_t>() >= palette.size(0))
    throw DataError(what + " has pixels beyond its palette of " + std::to_string(palette.size(0)) +
                    " colours");
  auto shape = numbers.sizes().vec();
  shape.back() = palette.size(1);
  return palette.index_select(0, numbers.flatten().to(at::kLong)).view(shape);
}

}  // namespace sluice
