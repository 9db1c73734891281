#include "kernels/files/nifti.h"

#include <ATen/Functions.h>

#include <limits>

#include "engine/base/error.h"
#include "kernels/files/raw_volume.h"

namespace sluice {
namespace {

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

// `data`: what `h` says, the file's first axis last but its channels.
void write(const std::filesystem::path& path, const NiftiHeader& h, const at::Tensor& data,
           int gzip_level) {
  const at::Tensor cast = stored_as(data, h.type, path.string());
  write_nifti_file(path, h, cast.const_data_ptr(), gzip_level);
}

}  // namespace

Volume read_nifti(const std::filesystem::path& path, at::ScalarType dtype, const ReadBytes& read) {
  NiftiFile f = read_nifti_file(path, read);
  return to_volume(f.raw(), f.bytes, f.header.offset, dtype, f.name);
}

void write_nifti(const std::filesystem::path& path, const at::Tensor& data, const Matrix4& affine,
                 const std::string& dtype, int gzip_level) {
  write(path, header_for(data, affine, stored_type(dtype), path.string()), data, gzip_level);
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
