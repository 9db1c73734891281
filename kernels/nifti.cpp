#include "kernels/nifti.h"

#include <ATen/Functions.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "engine/error.h"
#include "kernels/file_io.h"
#include "kernels/gzip.h"
#include "kernels/nifti_header.h"
#include "kernels/reverse_axes.h"
#include "kernels/word.h"

namespace sluice {
namespace {

template <class F>
void with_disk_type(NiftiType type, F&& f) {
  switch (type) {
    case NiftiType::uint8:
      return f(std::uint8_t{});
    case NiftiType::int8:
      return f(std::int8_t{});
    case NiftiType::uint16:
      return f(std::uint16_t{});
    case NiftiType::int16:
      return f(std::int16_t{});
    case NiftiType::uint32:
      return f(std::uint32_t{});
    case NiftiType::int32:
      return f(std::int32_t{});
    case NiftiType::uint64:
      return f(std::uint64_t{});
    case NiftiType::int64:
      return f(std::int64_t{});
    case NiftiType::float32:
      return f(float{});
    case NiftiType::float64:
      return f(double{});
  }
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
      throw std::invalid_argument(std::string("volumes are not read as ") + toString(type));
  }
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
std::int64_t convert(const std::uint8_t* bytes, const NiftiHeader& h, Out* out) {
  const auto* in = reinterpret_cast<const In*>(bytes);
  const std::int64_t x = h.axis(0), y = h.axis(1), z = h.axis(2);
  std::int64_t lost = 0;
  const Convert<In, Out, scaled> map{h.slope, h.inter, &lost};
  for (std::int64_t c = 0; c < h.channels(); ++c)
    reverse_axes(in + c * x * y * z, z, y, x, out + c * x * y * z, map);
  return lost;
}

at::Tensor to_tensor(const std::uint8_t* voxels, const NiftiHeader& h, at::ScalarType dtype,
                     const std::string& name) {
  std::vector<std::int64_t> shape{h.channels()};
  for (int d = 0; d < h.spatial_rank(); ++d) shape.push_back(h.axis(d));
  at::Tensor out = at::empty(shape, dtype);
  advise_huge_pages(out.data_ptr(), out.nbytes());
  std::int64_t lost = 0;
  with_disk_type(h.type, [&](auto in) {
    with_tensor_type(dtype, [&](auto o) {
      using In = decltype(in);
      using Out = decltype(o);
      auto* to = static_cast<Out*>(out.data_ptr());
      lost = h.slope == 1 && h.inter == 0 ? convert<In, Out, false>(voxels, h, to)
                                          : convert<In, Out, true>(voxels, h, to);
    });
  });
  if (lost > 0)
    throw DataError(name + ": " + with_commas(static_cast<std::uint64_t>(lost)) +
                    " voxels hold values that are no " + toString(dtype));
  return out;
}

// The file as it was before compression; its length is the header's to the byte.
Buffer whole_file(Buffer file, const std::string& name, bool named_gz, NiftiHeader& h) {
  if (named_gz != is_gzip(file.view()))
    throw DataError(name + (named_gz ? ": is named .gz but is not compressed"
                                     : ": is gzip data; its name must end in .gz"));
  std::array<std::uint8_t, nifti2_size> front;
  std::size_t n = std::min(front.size(), file.size());
  if (named_gz)
    n = gunzip_front(file.view(), front);
  else
    std::copy_n(file.data(), n, front.begin());
  if (named_gz && n < nifti1_size)
    throw DataError(name + ": gzip stream ends early or is damaged: no NIfTI header comes out");
  h = parse_nifti_header({front.data(), n}, name);
  const std::uint64_t expected =
      h.offset + static_cast<std::uint64_t>(h.voxels()) * size_of(h.type);
  if (named_gz) return gunzip(file.view(), expected, name);
  if (file.size() != expected)
    throw DataError(name + (file.size() < expected ? ": ends early" : ": is too long") +
                    " (expected " + with_commas(expected) + " bytes, got " +
                    with_commas(file.size()) + ")");
  return file;
}

}  // namespace

Volume read_nifti(const std::filesystem::path& path, at::ScalarType dtype) {
  const std::string name = path.string();
  NiftiHeader h;
  Buffer file = whole_file(read_file(path), name, path.extension() == ".gz", h);
  std::span<std::uint8_t> voxels{file.data() + h.offset, file.size() - h.offset};
  if (h.offset % size_of(h.type) != 0) {  // legal, rare, and not aligned for its type
    std::memmove(file.data(), voxels.data(), voxels.size());
    voxels = {file.data(), voxels.size()};
  }
  if (h.swapped) swap_bytes(voxels, size_of(h.type));
  Volume v;
  v.data = to_tensor(voxels.data(), h, dtype, name);
  v.affine = h.affine;
  v.spacing = spacing_of(h.affine);
  v.disk_dtype = name_of(h.type);
  v.may_be_non_finite = h.type == NiftiType::float32 || h.type == NiftiType::float64;
  return v;
}

NiftiHeader read_nifti_header(const std::filesystem::path& path) {
  const std::string name = path.string();
  const Buffer front = read_file_front(path, 64 * 1024);
  std::array<std::uint8_t, nifti2_size> bytes;
  std::size_t n = std::min(bytes.size(), front.size());
  if (is_gzip(front.view()))
    n = gunzip_front(front.view(), bytes);
  else
    std::copy_n(front.data(), n, bytes.begin());
  return parse_nifti_header({bytes.data(), n}, name);
}

namespace {

at::ScalarType tensor_type(NiftiType type) {
  switch (type) {
    case NiftiType::uint8:
      return at::kByte;
    case NiftiType::int8:
      return at::kChar;
    case NiftiType::uint16:
      return at::kUInt16;
    case NiftiType::int16:
      return at::kShort;
    case NiftiType::uint32:
      return at::kUInt32;
    case NiftiType::int32:
      return at::kInt;
    case NiftiType::uint64:
      return at::kUInt64;
    case NiftiType::int64:
      return at::kLong;
    case NiftiType::float32:
      return at::kFloat;
    case NiftiType::float64:
      return at::kDouble;
  }
  throw std::invalid_argument("no such NIfTI datatype");
}

// The tensor in the file's type; refuses what an integer type cannot hold.
at::Tensor cast_for(const at::Tensor& data, NiftiType type, const std::string& name) {
  const at::Tensor in = data.detach().cpu().contiguous();
  if (at::isIntegralType(tensor_type(type), false) && in.scalar_type() != tensor_type(type)) {
    double low = 0, above = 0;
    with_disk_type(type, [&](auto zero) {
      low = static_cast<double>(std::numeric_limits<decltype(zero)>::min());
      above = std::ldexp(1.0, std::numeric_limits<decltype(zero)>::digits);
    });
    const at::Tensor wide = in.to(at::kDouble);
    const double least = wide.min().item<double>(), most = wide.max().item<double>();
    // Truncation saves what lies less than one beyond the limits. NaN fails both comparisons.
    if (!(least > low - 1 && most < above))
      throw DataError(name + ": values from " + std::to_string(least) + " to " +
                      std::to_string(most) + " do not fit " + name_of(type));
  }
  return in.to(tensor_type(type)).contiguous();
}

NiftiHeader header_for(const at::Tensor& data, const Matrix4& affine, NiftiType type,
                       const std::string& name) {
  if (data.dim() != 3 && data.dim() != 4)
    throw DataError(name + ": a volume has 3 axes, or 4 with channels, not " +
                    std::to_string(data.dim()));
  NiftiHeader h;
  const auto sizes = data.sizes();
  h.dim.assign(sizes.end() - 3, sizes.end());
  if (data.dim() == 4 && sizes[0] != 1) h.dim.push_back(sizes[0]);
  for (auto n : h.dim)
    if (n < 1 || n > std::numeric_limits<std::int16_t>::max())
      throw DataError(name + ": NIfTI-1 cannot hold an axis of " + std::to_string(n));
  h.type = type;
  h.affine = affine;
  return h;
}

}  // namespace

void write_nifti(const std::filesystem::path& path, const at::Tensor& data, const Matrix4& affine,
                 const std::string& dtype, int gzip_level) {
  const std::string name = path.string();
  const NiftiType type = nifti_type(dtype);
  const NiftiHeader h = header_for(data, affine, type, name);
  const at::Tensor cast = cast_for(data, type, name);
  const auto header = make_nifti1_header(h);
  Buffer file(header.size() + cast.nbytes());
  std::copy(header.begin(), header.end(), file.data());
  const std::int64_t x = h.axis(0), y = h.axis(1), z = h.axis(2);
  with_disk_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = static_cast<const T*>(cast.data_ptr());
    auto* to = reinterpret_cast<T*>(file.data() + header.size());
    for (std::int64_t c = 0; c < h.channels(); ++c)
      reverse_axes(from + c * x * y * z, x, y, z, to + c * x * y * z, [](T v) { return v; });
  });
  if (path.extension() == ".gz")
    write_file(path, {gzip(file.view(), gzip_level).view()});
  else
    write_file(path, {file.view()});
}

}  // namespace sluice
