#include "kernels/infer/blend.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/cuda/cuda_library.h"

namespace sluice {
namespace {

using namespace kernels;

// Two spatial axes are three with one row between them, so that rows stay rows.
std::int32_t extent(const std::vector<std::int64_t>& of, int d, std::int32_t missing) {
  if (of.size() == 3) return static_cast<std::int32_t>(of[d]);
  return d == 1 ? missing : static_cast<std::int32_t>(of[d / 2]);
}
at::Tensor in_space(const at::Tensor& t, std::int64_t axes) {
  return t.dim() == axes ? t : t.unsqueeze(-2);
}

VoxelType logit_type(const at::Tensor& t) {
  return t.scalar_type() == at::kHalf       ? VoxelType::f16
         : t.scalar_type() == at::kBFloat16 ? VoxelType::bf16
                                            : VoxelType::f32;
}
bool is_read(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat || logit_type(t) != VoxelType::f32;
}

}  // namespace

at::Device blend_device(const at::Tensor& volume) {
  return cuda_takes(volume) ? volume.device() : at::Device(at::kCPU);
}

Blend::Blend(const BlendWindow& window, std::int64_t channels, const at::Tensor& result)
    : window_(window), result_(in_space(result, 4)) {
  const bool classes = result.scalar_type() == at::kByte;
  sums_.channels = static_cast<std::int32_t>(channels);
  sums_.half = window.half;
  for (int d = 0; d < 3; ++d) sums_.size[d] = static_cast<std::int32_t>(result_.size(d + 1));
  const std::int64_t depth = window.size[0], y = result_.size(2), z = result_.size(3);
  const auto options = result_.options().dtype(at::kFloat);
  sum_ = classes ? at::zeros({channels, depth, y, z}, options) : result_.zero_();
  total_ = at::zeros({depth, y, z}, options);
  sums_.sum_planes = static_cast<std::int32_t>(sum_.size(1));
  sums_.total_planes = static_cast<std::int32_t>(depth);
  sums_.sum = sum_.mutable_data_ptr<float>();
  sums_.total = total_.mutable_data_ptr<float>();
}

std::int64_t Blend::bytes() const {
  const bool classes = result_.scalar_type() == at::kByte;
  return static_cast<std::int64_t>((classes ? sum_.nbytes() : 0) + total_.nbytes());
}

void Blend::add(const at::Tensor& logits, std::span<const std::vector<std::int64_t>> starts) {
  at::Tensor y = in_space(logits.to(result_.device()), 5);
  if (!is_read(y)) y = y.to(at::kFloat);
  for (std::size_t first = 0, end; first < starts.size(); first = end) {
    for (end = first + 1;
         end < starts.size() && end - first < blend_windows && starts[end][0] == starts[first][0];)
      ++end;
    finish_to(static_cast<std::int32_t>(starts[first][0]));
    add_layer(y.narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first)),
              starts.subspan(first, end - first));
  }
}

// At most blend_windows of them, that begin on the same plane.
void Blend::add_layer(const at::Tensor& logits, std::span<const std::vector<std::int64_t>> starts) {
  BlendCall c;
  c.logits = logits.const_data_ptr();
  c.type = logit_type(logits);
  c.windows = static_cast<std::int32_t>(starts.size());
  for (int d = 0; d < 3; ++d) {
    c.window[d] = extent(window_.size, d, 1);
    c.stride[d] = logits.stride(d + 2);
    for (std::size_t w = 0; w < starts.size(); ++w) c.start[w][d] = extent(starts[w], d, 0);
  }
  for (std::size_t a = 0; a < window_.weights.size(); ++a)
    c.weight[window_.size.size() == 3 ? a : 2 * a] = window_.weights[a].const_data_ptr<float>();
  c.window_stride = logits.stride(0);
  c.channel_stride = logits.stride(1);
  c.least = window_.least;
  c.sums = sums_;
  if (logits.device().is_cpu()) return kernels::blend(c);
  const CudaCall cuda(logits);
  cuda.require(cuda.table.blend(c, cuda.stream));
}

void Blend::finish_to(std::int32_t plane) {
  if (plane < finished_) throw Error(Exit::usage, "blending: windows out of order");
  BlendFinish f;
  f.sums = sums_;
  f.begin = finished_;
  f.end = plane;
  if (result_.scalar_type() == at::kByte) f.classes = result_.mutable_data_ptr<std::uint8_t>();
  finished_ = plane;
  if (f.begin == f.end) return;
  if (result_.device().is_cpu()) return kernels::blend_finish(f);
  const CudaCall cuda(result_);
  cuda.require(cuda.table.blend_finish(f, cuda.stream));
}

void Blend::finish() { finish_to(sums_.size[0]); }

}  // namespace sluice
