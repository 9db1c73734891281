#include "kernels/files/raw_volume.h"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "engine/base/error.h"

namespace sluice {
namespace {

at::ScalarType tensor_type(StoredType type) {
  switch (type) {
    case StoredType::uint8:
      return at::kByte;
    case StoredType::int8:
      return at::kChar;
    case StoredType::uint16:
      return at::kUInt16;
    case StoredType::int16:
      return at::kShort;
    case StoredType::uint32:
      return at::kUInt32;
    case StoredType::int32:
      return at::kInt;
    case StoredType::uint64:
      return at::kUInt64;
    case StoredType::int64:
      return at::kLong;
    case StoredType::float32:
      return at::kFloat;
    case StoredType::float64:
      return at::kDouble;
  }
  throw std::invalid_argument("no such datatype of voxels");
}

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
      throw std::invalid_argument("volumes are not read as " + c10::getDtypeNames(type).first);
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
                    " voxels hold values that are no " + c10::getDtypeNames(dtype).first);
  return out;
}

}  // namespace

at::Tensor stored_as(const at::Tensor& data, StoredType type, const std::string& name) {
  const at::Tensor in = data.detach().cpu().contiguous();
  if (at::isIntegralType(tensor_type(type), false) && in.scalar_type() != tensor_type(type)) {
    double low = 0, above = 0;
    with_stored_type(type, [&](auto zero) {
      low = static_cast<double>(std::numeric_limits<decltype(zero)>::min());
      above = std::ldexp(1.0, std::numeric_limits<decltype(zero)>::digits);
    });
    const at::Tensor wide = in.to(at::kDouble);
    const double least = wide.min().item<double>(), most = wide.max().item<double>();
    if (std::isnan(least))
      throw DataError(name + ": values that are not a number (NaN) do not fit " + name_of(type));
    // Truncation saves what lies less than one beyond the limits.
    if (!(least > low - 1 && most < above))
      throw DataError(name + ": values from " + std::to_string(least) + " to " +
                      std::to_string(most) + " do not fit " + name_of(type));
  }
  return in.to(tensor_type(type)).contiguous();
}

Volume to_volume(const RawVolume& raw, FileBytes& file, std::size_t begin, at::ScalarType dtype,
                 const std::string& name) {
  FileBytes planes;
  Volume v;
  v.data = to_tensor(in_order(raw, file, begin, planes), raw, dtype, name);
  v.affine = raw.affine;
  v.placed = raw.placed;
  v.spacing = spacing_of(raw.affine);
  v.disk_dtype = name_of(raw.type);
  v.may_be_non_finite = raw.type == StoredType::float32 || raw.type == StoredType::float64;
  return v;
}

}  // namespace sluice
