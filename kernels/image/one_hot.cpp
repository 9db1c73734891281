#include "kernels/image/one_hot.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>

#include <algorithm>

#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"

namespace sluice {
namespace {

constexpr std::int64_t block = 4096;  // voxels at a time: their labels stay in the first cache

template <class L, class T>
void spread(const L* label, std::int64_t n, std::int64_t classes, std::int64_t stride, T* out) {
  for (std::int64_t c = 0; c < classes; ++c, out += stride) {
    const L wanted = static_cast<L>(c);
    const bool is_value = static_cast<std::int64_t>(wanted) == c;  // a byte has no 256
    for (std::int64_t i = 0; i < n; ++i) out[i] = is_value && label[i] == wanted ? T(1) : T(0);
  }
}

template <class L, class T>
void spread_all(const at::Tensor& label, std::int64_t classes, const at::Tensor& out) {
  const std::int64_t voxels = label.numel() / std::max<std::int64_t>(1, label.size(0));
  const std::int64_t blocks = (voxels + block - 1) / block;
  const L* from = label.const_data_ptr<L>();
  T* to = out.mutable_data_ptr<T>();
  team_for(label.size(0) * blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t n = k / blocks, first = k % blocks * block;
      spread(from + n * voxels + first, std::min(block, voxels - first), classes, voxels,
             to + n * classes * voxels + first);
    }
  });
}

void on_host(const at::Tensor& label, std::int64_t classes, const at::Tensor& out) {
  AT_DISPATCH_ALL_TYPES_AND3(
      at::kBool, at::kHalf, at::kBFloat16, label.scalar_type(), "one_hot", [&] {
        using L = scalar_t;
        AT_DISPATCH_FLOATING_TYPES(out.scalar_type(), "one_hot",
                                   [&] { spread_all<L, scalar_t>(label, classes, out); });
      });
}

void on_device(const at::Tensor& label, std::int64_t classes, const at::Tensor& out) {
  const CudaCall cuda(label);
  for (std::int64_t n = 0; n < label.size(0); ++n)
    cuda.require(cuda.table.one_hot(label[n].const_data_ptr<std::uint8_t>(), label[n].numel(),
                                    static_cast<int>(classes), cuda_type(out),
                                    out[n].mutable_data_ptr(), cuda.stream));
}

at::Tensor compared(const at::Tensor& label, std::int64_t classes, at::ScalarType type) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(label.dim()), 1);
  shape[1] = classes;
  const auto wide = label.options().dtype(label.is_floating_point() ? at::kDouble : at::kLong);
  return at::eq(label, at::arange(classes, wide).view(shape)).to(type);
}

}  // namespace

at::Tensor one_hot(const at::Tensor& label, std::int64_t classes, at::ScalarType type) {
  const bool floats = type == at::kFloat || type == at::kDouble;
  const bool device = cuda_takes(label) && label.scalar_type() == at::kByte &&
                      (type == at::kFloat || type == at::kHalf || type == at::kBFloat16);
  if (!device && !(label.device().is_cpu() && floats)) return compared(label, classes, type);
  auto shape = label.sizes().vec();
  shape[1] = classes;
  const at::Tensor from = label.contiguous(), out = at::empty(shape, from.options().dtype(type));
  device ? on_device(from, classes, out) : on_host(from, classes, out);
  return out;
}

}  // namespace sluice
