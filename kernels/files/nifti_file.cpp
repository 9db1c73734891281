#include "kernels/files/nifti_file.h"

#include <array>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "engine/base/image_files.h"
#include "kernels/base/reverse_axes.h"
#include "kernels/files/gzip.h"

namespace sluice {
namespace {

bool is_named_gz(const std::filesystem::path& path) { return has_ending(path, ".gz"); }

void check_name(const FileBytes& file, const std::filesystem::path& path) {
  const bool named_gz = is_named_gz(path);
  if (named_gz != is_gzip(file.view()))
    throw DataError(path.string() + (named_gz ? ": is named .gz but is not compressed"
                                              : ": is gzip data; its name must end in .gz"));
}

void check_length(std::uint64_t expected, std::uint64_t got, const std::string& name) {
  if (got != expected)
    throw DataError(name + (got < expected ? ": ends early" : ": is too long") + " (expected " +
                    with_commas(expected) + " bytes, got " + with_commas(got) + ")");
}

NiftiHeader header_in(const FileBytes& file, const std::string& name) {
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
  const FileBytes file = read(path);
  check_name(file, path);
  const NiftiHeader h = header_in(file, path.string());
  if (!h.pair) throw DataError(path.string() + ": is a single NIfTI file, named like half of one");
  if (!is_gzip(file.view())) return h;
  gunzip_single(file.view(), most, path.string());
  return h;
}

// The file with the voxels as it was before compression; its length is the header's to the byte.
FileBytes whole_file(FileBytes file, const NiftiHeader& h, const std::string& name) {
  const std::uint64_t expected =
      h.offset + static_cast<std::uint64_t>(h.voxels()) * size_of(h.type);
  if (is_gzip(file.view())) return gunzip(file.view(), expected, name);
  check_length(expected, file.size(), name);
  return file;
}

}  // namespace

RawVolume NiftiFile::raw() const {
  const NiftiHeader& h = header;
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

NiftiFile read_nifti_file(const std::filesystem::path& path, const ReadBytes& read) {
  const PairNames names = pair_names(path);
  const bool pair = names.header != names.voxels;
  NiftiFile f;
  f.name = names.voxels.string();
  if (pair) f.header = header_of_pair(names.header, read);
  f.bytes = read(names.voxels);
  check_name(f.bytes, names.voxels);
  if (!pair) f.header = header_in(f.bytes, f.name);
  if (!pair && f.header.pair)
    throw DataError(f.name + ": is half of a pair; the halves are named .hdr and .img");
  f.bytes = whole_file(std::move(f.bytes), f.header, f.name);
  return f;
}

NiftiHeader read_nifti_header(const std::filesystem::path& path) {
  const std::filesystem::path file = pair_names(path).header;
  const std::string name = file.string();
  const FileBytes front = read_file_front(file, 64 * 1024);
  std::array<std::uint8_t, nifti2_size> bytes;
  std::size_t n = std::min(bytes.size(), front.size());
  if (is_gzip(front.view()))
    n = gunzip_front(front.view(), bytes);
  else
    std::copy_n(front.data(), n, bytes.begin());
  return parse_nifti_header({bytes.data(), n}, name);
}

void write_nifti_file(const std::filesystem::path& path, const NiftiHeader& h, const void* voxels,
                      int gzip_level) {
  const auto header = make_nifti1_header(h);
  const auto bytes = static_cast<std::size_t>(h.voxels()) * size_of(h.type);
  FileBytes file(header.size() + bytes);
  std::copy(header.begin(), header.end(), file.data());
  const std::int64_t x = h.axis(0), y = h.axis(1), z = h.axis(2);
  with_stored_type(h.type, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = static_cast<const T*>(voxels);
    auto* to = reinterpret_cast<T*>(file.data() + header.size());
    for (std::int64_t c = 0; c < h.channels(); ++c)
      reverse_axes(from + c * x * y * z, x, y, z, to + c * x * y * z, [](T v) { return v; });
  });
  if (is_named_gz(path))
    write_file(path, {gzip(file.view(), gzip_level).view()});
  else
    write_file(path, {file.view()});
}

}  // namespace sluice
