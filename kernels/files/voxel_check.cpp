#include "kernels/files/voxel_check.h"

#include <ATen/Dispatch.h>

#include <cmath>
#include <cstdint>

#include "engine/base/error.h"
#include "kernels/files/file_io.h"

namespace sluice {
namespace {

// "[0, 12, 3, 7]": where element n of a contiguous tensor stands.
std::string index_of(const at::Tensor& t, std::int64_t n) {
  std::string s = "]";
  for (std::int64_t d = t.dim(); d-- > 0; n /= t.size(d))
    s = (d > 0 ? ", " : "[") + std::to_string(n % t.size(d)) + s;
  return s;
}

// The count vectorises; only where it is not 0 does anybody look for the first.
template <class T, class Bad>
void refuse(const at::Tensor& t, const std::string& name, const std::string& what, Bad bad) {
  const T* v = t.const_data_ptr<T>();
  std::int64_t count = 0, first = 0;
  for (std::int64_t i = 0; i < t.numel(); ++i) count += bad(v[i]);
  if (count == 0) return;
  while (!bad(v[first])) ++first;
  throw DataError(name + ": " + with_commas(static_cast<std::uint64_t>(count)) + " " + what +
                  ", the first is " + std::to_string(v[first]) + " at " + index_of(t, first));
}

}  // namespace

void check_finite(const at::Tensor& volume, const std::string& name) {
  const std::string what = "voxels are NaN or infinite";
  const at::Tensor t = volume.contiguous();
  if (t.scalar_type() == at::kFloat)
    refuse<float>(t, name, what, [](float v) { return !(std::abs(v) <= 3.4028234663852886e38f); });
  if (t.scalar_type() == at::kDouble)
    refuse<double>(t, name, what, [](double v) { return !std::isfinite(v); });
}

void check_labels(const at::Tensor& volume, std::int64_t max_label, const std::string& name) {
  const std::string what = "voxels are no label from 0 to " + std::to_string(max_label);
  const at::Tensor t = volume.contiguous();
  AT_DISPATCH_ALL_TYPES(t.scalar_type(), "check_labels", [&] {
    const auto highest = static_cast<double>(max_label);
    refuse<scalar_t>(t, name, what, [highest](scalar_t v) {
      const auto value = static_cast<double>(v);
      return !(value >= 0 && value <= highest && value == std::nearbyint(value));
    });
  });
}

}  // namespace sluice
