#include "kernels/files/raw_voxels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "engine/base/error.h"
#include "kernels/base/reverse_axes.h"
#include "kernels/base/word.h"

namespace sluice {
namespace {

struct TypeRow {
  StoredType type;
  std::size_t size;
  const char* name;
};
constexpr TypeRow type_table[] = {
    {StoredType::uint8, 1, "uint8"},     {StoredType::int8, 1, "int8"},
    {StoredType::uint16, 2, "uint16"},   {StoredType::int16, 2, "int16"},
    {StoredType::uint32, 4, "uint32"},   {StoredType::int32, 4, "int32"},
    {StoredType::uint64, 8, "uint64"},   {StoredType::int64, 8, "int64"},
    {StoredType::float32, 4, "float32"}, {StoredType::float64, 8, "float64"},
};

template <class Is>
const TypeRow* find_row(Is is) {
  for (const auto& row : type_table)
    if (is(row)) return &row;
  return nullptr;
}

// One stored number as the value it stands for. Integer outputs are exact: `lost` counts the
// values that they cannot hold.
template <class In, class Out, bool scaled>
struct Convert {
  double slope, inter;
  std::int64_t* lost;

  [[gnu::always_inline]] Out operator()(In v) const {
    if constexpr (scaled && std::is_floating_point_v<Out>) {
      return static_cast<Out>(static_cast<double>(v) * slope + inter);  // nibabel scales in double
    } else if constexpr (std::is_floating_point_v<Out>) {
      return static_cast<Out>(v);
    } else if constexpr (!scaled && std::is_integral_v<In>) {
      *lost += !std::in_range<Out>(v);
      return static_cast<Out>(v);
    } else {
      // 2^63 is a double, the largest integer below it is not: hence "<" with one above the limit.
      const double value = scaled ? static_cast<double>(v) * slope + inter : static_cast<double>(v);
      constexpr double low = static_cast<double>(std::numeric_limits<Out>::min());
      constexpr double above = 2.0 * static_cast<double>(std::numeric_limits<Out>::max() / 2 + 1);
      const bool fits = value >= low && value < above && value == std::nearbyint(value);
      *lost += !fits;
      return fits ? static_cast<Out>(value) : Out{0};
    }
  }
};

template <class In, class Out, bool scaled>
std::int64_t convert(const std::uint8_t* bytes, const RawVolume& raw, Out* out) {
  const auto* in = reinterpret_cast<const In*>(bytes);
  const std::int64_t x = raw.axis(0), y = raw.axis(1), z = raw.axis(2);
  std::int64_t lost = 0;
  const Convert<In, Out, scaled> map{raw.slope, raw.inter, &lost};
  for (std::int64_t c = 0; c < raw.channels; ++c)
    reverse_axes(in + c * x * y * z, z, y, x, out + c * x * y * z, map);
  return lost;
}

// Channels moved after all axes.
FileBytes in_planes(std::span<const std::uint8_t> voxels, const RawVolume& raw) {
  std::size_t block = size_of(raw.type);
  for (std::size_t d = 0; d < raw.channel_axis; ++d) block *= static_cast<std::size_t>(raw.dim[d]);
  const auto channels = static_cast<std::size_t>(raw.channels);
  const std::size_t blocks = voxels.size() / (block * channels);
  FileBytes out(voxels.size());
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < blocks; ++i)
      std::memcpy(out.data() + (c * blocks + i) * block, voxels.data() + (i * channels + c) * block,
                  block);
  return out;
}

}  // namespace

std::size_t size_of(StoredType type) {
  return find_row([&](const TypeRow& row) { return row.type == type; })->size;
}
const char* name_of(StoredType type) {
  return find_row([&](const TypeRow& row) { return row.type == type; })->name;
}
const StoredType* find_stored_type(std::int64_t code) {
  const TypeRow* row =
      find_row([&](const TypeRow& r) { return static_cast<std::int64_t>(r.type) == code; });
  return row ? &row->type : nullptr;
}
StoredType stored_type(const std::string& name) {
  if (const TypeRow* row = find_row([&](const TypeRow& r) { return name == r.name; }))
    return row->type;
  throw std::invalid_argument("no datatype of voxels is called " + name);
}

double determinant3(const Matrix4& m) {
  return m[0] * (m[5] * m[10] - m[6] * m[9]) - m[1] * (m[4] * m[10] - m[6] * m[8]) +
         m[2] * (m[4] * m[9] - m[5] * m[8]);
}

void check_affine(const Matrix4& affine, std::size_t axes, const std::string& name) {
  for (const double v : affine)
    if (!std::isfinite(v)) throw DataError(name + ": the affine is not finite");
  if (axes >= 3 && determinant3(affine) == 0) throw DataError(name + ": the affine is singular");
}

std::array<double, 3> spacing_of(const Matrix4& m) {
  std::array<double, 3> spacing;
  for (std::size_t j = 0; j < 3; ++j)
    spacing[j] = std::sqrt(m[j] * m[j] + m[4 + j] * m[4 + j] + m[8 + j] * m[8 + j]);
  return spacing;
}

std::span<const std::uint8_t> in_order(const RawVolume& raw, FileBytes& file, std::size_t begin,
                                       FileBytes& planes) {
  std::span<std::uint8_t> voxels{file.data() + begin, file.size() - begin};
  if (raw.channels > 1 && raw.channel_axis < raw.dim.size()) {
    planes = in_planes(voxels, raw);
    voxels = {planes.data(), planes.size()};
  } else if (begin % size_of(raw.type) != 0) {  // legal, rare, and not aligned for its type
    std::memmove(file.data(), voxels.data(), voxels.size());
    voxels = {file.data(), voxels.size()};
  }
  if (raw.swapped) swap_bytes(voxels, size_of(raw.type));
  return voxels;
}

template <class Out>
std::int64_t to_values(std::span<const std::uint8_t> voxels, const RawVolume& raw, Out* out) {
  std::int64_t lost = 0;
  with_stored_type(raw.type, [&](auto in) {
    using In = decltype(in);
    lost = raw.slope == 1 && raw.inter == 0 ? convert<In, Out, false>(voxels.data(), raw, out)
                                            : convert<In, Out, true>(voxels.data(), raw, out);
  });
  return lost;
}

#define SLUICE_TO_VALUES(Out) \
  template std::int64_t to_values(std::span<const std::uint8_t>, const RawVolume&, Out*);
SLUICE_TO_VALUES(float)
SLUICE_TO_VALUES(double)
SLUICE_TO_VALUES(std::uint8_t)
SLUICE_TO_VALUES(std::int16_t)
SLUICE_TO_VALUES(std::int32_t)
SLUICE_TO_VALUES(std::int64_t)

}  // namespace sluice
