#include "kernels/net/dropout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"

namespace sluice {
namespace {

constexpr std::int64_t block = 4096;  // positions at a time

at::Tensor factors(const at::Tensor& x, const kernels::DropoutRule& rule) {
  at::Tensor out = at::empty(x.sizes(), at::kFloat);
  float* to = out.mutable_data_ptr<float>();
  const std::int64_t size = x.numel() / std::max<std::int64_t>(1, x.size(0));
  const std::int64_t blocks = (size + block - 1) / block;
  team_for(x.size(0) * blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t n = k / blocks, first = k % blocks * block;
      for (std::int64_t i = first; i < std::min(size, first + block); i += 4) {
        const Block4 draws = rule.draws(n, i);
        for (std::int64_t j = 0; j < std::min<std::int64_t>(4, size - i); ++j)
          to[n * size + i + j] = rule.factor(draws.v[j]);
      }
    }
  });
  return out.to(x.options()).contiguous(x.suggest_memory_format());
}

at::Tensor on_device(const at::Tensor& x, const kernels::DropoutRule& rule) {
  at::Tensor y = at::empty_like(x);
  kernels::DropoutCall call{x.const_data_ptr(), y.mutable_data_ptr(), x.size(0), x.size(1)};
  call.voxels = x.numel() / (call.members * call.channels);
  call.channels_last = !x.is_contiguous();
  const CudaCall cuda(x);
  cuda.require(cuda.table.dropout(rule, call, cuda_type(x), cuda.stream));
  return y;
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, const kernels::DropoutRule& rule) {
  if (x.numel() == 0) return x;
  if (cuda_takes(x)) return on_device(x.contiguous(x.suggest_memory_format()), rule);
  return x * factors(x, rule);
}

}  // namespace sluice
