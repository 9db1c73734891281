#include "kernels/files/nifti.h"

#include <ATen/Functions.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/error.h"
#include "kernels/base/reverse_axes.h"
#include "kernels/files/file_io.h"
#include "kernels/files/gzip.h"
#include "kernels/files/nifti_header.h"
#include "kernels/files/raw_volume.h"

namespace sluice {
namespace {

// The two names of a volume: the same one for a single file.
struct Names {
  std::filesystem::path header, voxels;
};

// "a.img.gz" and "a.hdr.gz" name the same pair.
Names names_of(const std::filesystem::path& path) {
  const bool gz = path.extension() == ".gz";
  std::filesystem::path stem = gz ? std::filesystem::path(path).replace_extension() : path;
  if (stem.extension() != ".hdr" && stem.extension() != ".img") return {path, path};
  const auto half = [&](const char* extension) {
    return stem.replace_extension(extension).string() + (gz ? ".gz" : "");
  };
  return {half(".hdr"), half(".img")};
}

void check_name(const Buffer& file, const std::filesystem::path& path) {
  const bool named_gz = path.extension() == ".gz";
  if (named_gz != is_gzip(file.view()))
    throw DataError(path.string() + (named_gz ? ": is named .gz but is not compressed"
                                              : ": is gzip data; its name must end in .gz"));
}

void check_length(std::uint64_t expected, std::uint64_t got, const std::string& name) {
  if (got != expected)
    throw DataError(name + (got < expected ? ": ends early" : ": is too long") + " (expected " +
                    with_commas(expected) + " bytes, got " + with_commas(got) + ")");
}

NiftiHeader header_in(const Buffer& file, const std::string& name) {
  std::array<std::uint8_t, nifti2_size> front;
  std::size_t n = std::min(front.size(), file.size());
  if (!is_gzip(file.view()))
    std::copy_n(file.data(), n, front.begin());
  else if ((n = gunzip_front(file.view(), front)) < nifti1_size)
    throw DataError(name + ": gzip stream ends early or is damaged: no NIfTI header comes out");
  return parse_nifti_header({front.data(), n}, name);
}

// The header's half of a pair. Compressed it has a checksum, and the stream says how long it is.
NiftiHeader header_of_pair(const std::filesystem::path& path, const ReadBytes& read) {
  constexpr std::uint64_t most = 1u << 20;  // extensions included
  const Buffer file = read(path);
  check_name(file, path);
  const NiftiHeader h = header_in(file, path.string());
  if (!h.pair) throw DataError(path.string() + ": is a single NIfTI file, named like half of one");
  if (!is_gzip(file.view())) return h;
  gunzip_single(file.view(), most, path.string());
  return h;
}

// The file with the voxels as it was before compression; its length is the header's to the byte.
Buffer whole_file(Buffer file, const NiftiHeader& h, const std::string& name) {
  const std::uint64_t expected =
      h.offset + static_cast<std::uint64_t>(h.voxels()) * size_of(h.type);
  if (is_gzip(file.view())) return gunzip(file.view(), expected, name);
  check_length(expected, file.size(), name);
  return file;
}

RawVolume raw_volume(const NiftiHeader& h) {
  RawVolume raw;
  raw.type = h.type;
  raw.swapped = h.swapped;
  raw.dim.assign(h.dim.begin(), h.dim.begin() + h.spatial_rank());
  raw.channels = h.channels();
  raw.channel_axis = raw.dim.size();
  raw.slope = h.slope;
  raw.inter = h.inter;
  raw.affine = h.affine;
  raw.placed = h.placed;
  return raw;
}

}  // namespace

Volume read_nifti(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  const Names names = names_of(path);
  const std::string name = names.voxels.string();
  const bool pair = names.header != names.voxels;
  NiftiHeader h;
  if (pair) h = header_of_pair(names.header, read);
  Buffer file = read(names.voxels);
  check_name(file, names.voxels);
  if (!pair) h = header_in(file, name);
  if (!pair && h.pair)
    throw DataError(name + ": is half of a pair; the halves are named .hdr and .img");
  file = whole_file(std::move(file), h, name);
  return to_volume(raw_volume(h), file, h.offset, dtype, name);
}

NiftiHeader read_nifti_header(const std::filesystem::path& path) {
  const std::filesystem::path file = names_of(path).header;
  const std::string name = file.string();
  const Buffer front = read_file_front(file, 64 * 1024);
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
    with_voxel_type(type, [&](auto zero) {
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

namespace {

// `data`: what `h` says, the file's first axis last but its channels.
void write(const std::filesystem::path& path, const NiftiHeader& h, const at::Tensor& data,
           int gzip_level) {
  const NiftiType type = h.type;
  const at::Tensor cast = cast_for(data, type, path.string());
  const auto header = make_nifti1_header(h);
  Buffer file(header.size() + cast.nbytes());
  std::copy(header.begin(), header.end(), file.data());
  const std::int64_t x = h.axis(0), y = h.axis(1), z = h.axis(2);
  with_voxel_type(type, [&](auto zero) {
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

}  // namespace

void write_nifti(const std::filesystem::path& path, const at::Tensor& data, const Matrix4& affine,
                 const std::string& dtype, int gzip_level) {
  write(path, header_for(data, affine, voxel_type(dtype), path.string()), data, gzip_level);
}

void write_displacements(const std::filesystem::path& path, const at::Tensor& ddf,
                         const Matrix4& from, const Matrix4& into, int gzip_level) {
  if (ddf.dim() != 4 || ddf.size(0) != 3)
    throw DataError(path.string() + ": displacements are [3, X, Y, Z], not " +
                    c10::str(ddf.sizes()));
  // At index i: into (i + u) - from i.
  const at::Tensor u = ddf.detach().to(at::kCPU, at::kDouble);
  std::vector<at::Tensor> index, mm;
  for (int a = 0; a < 3; ++a) {
    std::vector<std::int64_t> shape(3, 1);
    shape[static_cast<std::size_t>(a)] = u.size(a + 1);
    index.push_back(at::arange(u.size(a + 1), at::kDouble).view(shape));
  }
  for (std::size_t r = 0; r < 3; ++r) {
    at::Tensor x = at::full(u.sizes().slice(1), into[4 * r + 3] - from[4 * r + 3], at::kDouble);
    for (std::size_t a = 0; a < 3; ++a)
      x = x + u[static_cast<std::int64_t>(a)] * into[4 * r + a] +
          index[a] * (into[4 * r + a] - from[4 * r + a]);
    mm.push_back(r < 2 ? -x : x);
  }
  const at::Tensor vectors = at::stack(mm);
  NiftiHeader h = header_for(vectors, from, NiftiType::float32, path.string());
  h.dim = {u.size(1), u.size(2), u.size(3), 1, 3};
  h.intent = 1007;
  write(path, h, vectors, gzip_level);
}

}  // namespace sluice
