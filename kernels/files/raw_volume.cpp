#include "kernels/files/raw_volume.h"

#include <ATen/Functions.h>

#include <stdexcept>

#include "engine/base/error.h"

namespace sluice {
namespace {

template <class F>
void with_tensor_type(at::ScalarType type, F&& f) {
  switch (type) {
    case at::kFloat:
      return f(float{});
    case at::kDouble:
      return f(double{});
    case at::kByte:
      return f(std::uint8_t{});
    case at::kShort:
      return f(std::int16_t{});
    case at::kInt:
      return f(std::int32_t{});
    case at::kLong:
      return f(std::int64_t{});
    default:
      throw std::invalid_argument(std::string("volumes are not read as ") + toString(type));
  }
}

at::Tensor to_tensor(std::span<const std::uint8_t> voxels, const RawVolume& raw,
                     at::ScalarType dtype, const std::string& name) {
  std::vector<std::int64_t> shape{raw.channels};
  shape.insert(shape.end(), raw.dim.begin(), raw.dim.end());
  at::Tensor out = at::empty(shape, dtype);
  advise_huge_pages(out.data_ptr(), out.nbytes());
  std::int64_t lost = 0;
  with_tensor_type(dtype, [&](auto o) {
    lost = to_values(voxels, raw, static_cast<decltype(o)*>(out.data_ptr()));
  });
  if (lost > 0)
    throw DataError(name + ": " + with_commas(static_cast<std::uint64_t>(lost)) +
                    " voxels hold values that are no " + toString(dtype));
  return out;
}

}  // namespace

Volume to_volume(const RawVolume& raw, FileBytes& file, std::size_t begin, at::ScalarType dtype,
                 const std::string& name) {
  FileBytes planes;
  Volume v;
  v.data = to_tensor(in_order(raw, file, begin, planes), raw, dtype, name);
  v.affine = raw.affine;
  v.placed = raw.placed;
  v.spacing = spacing_of(raw.affine);
  v.disk_dtype = name_of(raw.type);
  v.may_be_non_finite = raw.type == VoxelType::float32 || raw.type == VoxelType::float64;
  return v;
}

}  // namespace sluice
