#include "tools/edge/image.h"

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

#include "engine/base/error.h"
#include "engine/base/file_ending.h"
#include "kernels/augment/fused_augment.h"
#include "kernels/files/nifti_file.h"

namespace sluice::edge {

using kernels::AugmentChain;

namespace {

AugmentChain chain_over(const std::vector<float>& voxels, std::int64_t channels,
                        const Shape3& shape) {
  return {kernels::view_of(voxels.data(), kernels::VoxelType::f32, channels, shape), 3};
}

std::size_t count(std::int64_t channels, const Shape3& n) {
  return static_cast<std::size_t>(channels * n[0] * n[1] * n[2]);
}

}  // namespace

Image::Image(std::vector<float> voxels, std::int64_t channel_count, const Shape3& shape,
             const Affine& placed)
    : channels(channel_count),
      affine(placed),
      voxels_(std::move(voxels)),
      chain_(chain_over(voxels_, channels, shape)) {}

void Image::settle() {
  if (!pending_) return;
  const Shape3 n = shape();
  std::vector<float> out(count(channels, n));
  const auto job = chain_.job(kernels::output_of(out.data(), kernels::VoxelType::f32, channels, n));
  std::vector<char> workspace(sluice_augment_workspace(&job, 1) + 256);
  void* at = workspace.data();
  std::size_t room = workspace.size();
  at = std::align(256, room - 256, at, room);
  if (!sluice_augment_cpu(&job, 1, at)) throw std::logic_error(sluice_augment_problem(&job, 1));
  voxels_ = std::move(out);
  chain_ = chain_over(voxels_, channels, n);
  pending_ = false;
}

void Image::crop(const Shape3& start, const Shape3& size, float fill) {
  history_.push_back({affine, shape(), {}});
  pend([&](AugmentChain& c) { return c.crop(start, size, fill); });
  affine =
      multiply(affine, translation({static_cast<double>(start[0]), static_cast<double>(start[1]),
                                    static_cast<double>(start[2])}));
  pending_ = true;
}

void Image::reorder(const Reorder& order) {
  history_.push_back({affine, shape(), {}});
  affine = multiply(affine, reorder_affine(order, shape()));
  pend([&](AugmentChain& c) { return c.reorder(order); });
  pending_ = true;
}

void Image::resample(const Affine& to_source, const Shape3& shape, const Affine& placed,
                     Interpolation mode, Padding padding) {
  history_.push_back({affine, this->shape(), padding});
  if (chain_.interpolations() > 0) settle();
  affine = placed;
  pend([&](AugmentChain& c) { return c.affine(to_source, shape, {mode, padding}); });
  pending_ = true;
}

void Image::turn_back(Interpolation mode) {
  const std::vector<Step> history = std::move(history_);
  for (std::size_t i = history.size(); i-- > 0;) {
    const Step& step = history[i];
    const Affine to_source = multiply(inverse(affine), step.affine_before);
    if (step.sampled) {
      resample(to_source, step.shape_before, step.affine_before, mode, *step.sampled);
    } else {
      const WayBack back = way_back(to_source, shape()).value();
      if (!(back.order == Reorder{})) reorder(back.order);
      if (back.start != Shape3{} || step.shape_before != shape())
        crop(back.start, step.shape_before);
    }
    affine = step.affine_before;
  }
  history_.clear();
}

void Image::add(const kernels::AugmentOp& op) {
  pend([&](AugmentChain& c) { return c.add(op); });
  pending_ = true;
}

const std::vector<float>& Image::voxels() {
  settle();
  return voxels_;
}

Image Image::like(std::vector<float> voxels, std::int64_t channel_count) const {
  if (voxels.size() != count(channel_count, shape()))
    throw std::logic_error("other values, another grid");
  Image other(std::move(voxels), channel_count, shape(), affine);
  other.history_ = history_;
  return other;
}

void Image::replace(std::vector<float> voxels, std::int64_t channel_count) {
  *this = like(std::move(voxels), channel_count);
}

Image load(const std::filesystem::path& file, bool check_finite) {
  if (!is_nifti_name(file))
    throw DataError(file.string() + ": sluice-edge reads .nii and .nii.gz alone");
  NiftiFile f = read_nifti_file(file);
  if (f.header.spatial_rank() != 3)
    throw DataError(f.name + ": has " + std::to_string(f.header.spatial_rank()) +
                    " axes; sluice-edge takes volumes of three");
  const Shape3 shape{f.header.axis(0), f.header.axis(1), f.header.axis(2)};
  std::vector<float> voxels(static_cast<std::size_t>(f.header.voxels()));
  FileBytes planes;
  to_values(in_order(f.raw(), f.bytes, f.header.offset, planes), f.raw(), voxels.data());
  if (check_finite)
    for (const float v : voxels)
      if (!std::isfinite(v)) throw DataError(f.name + ": has voxels that are NaN or infinite");
  return {std::move(voxels), f.header.channels(), shape, f.header.affine};
}

void save(const std::filesystem::path& file, Image& image, StoredType type, int gzip_level) {
  NiftiHeader h;
  const Shape3 n = image.shape();
  h.dim.assign(n.begin(), n.end());
  if (image.channels != 1) h.dim.push_back(image.channels);
  for (const std::int64_t extent : h.dim)
    if (extent > std::numeric_limits<std::int16_t>::max())
      throw DataError(file.string() + ": NIfTI-1 cannot hold an axis of " + std::to_string(extent));
  h.type = type;
  h.affine = image.affine;
  const std::vector<float>& values = image.voxels();
  with_stored_type(type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> cast(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto v = static_cast<double>(values[i]);
      if constexpr (std::is_integral_v<T>) {
        // Truncation saves what lies less than one beyond the limits. NaN fails both comparisons.
        if (!(v > static_cast<double>(std::numeric_limits<T>::min()) - 1 &&
              v < std::ldexp(1.0, std::numeric_limits<T>::digits)))
          throw DataError(file.string() + ": value " + std::to_string(v) + " does not fit " +
                          name_of(type));
      }
      cast[i] = static_cast<T>(v);
    }
    write_nifti_file(file, h, cast.data(), gzip_level);
  });
}

}  // namespace sluice::edge
