#include "kernels/net/products.h"

#include <ATen/ATen.h>

#include "engine/base/cpu.h"

// MKL's, which LibTorch brings on x86 without its headers: C = alpha A B + beta C, A and B of
// bfloat16, C of float32. Layout and transposition by CBLAS's numbers.
extern "C" [[gnu::weak]] void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b,
                                                     int m, int n, int k, float alpha,
                                                     const void* a, int lda, const void* b, int ldb,
                                                     float beta, float* c, int ldc);

namespace sluice {
namespace {

bool has_wide_product(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16 &&
         cblas_gemm_bf16bf16f32 && cpu_level() >= CpuLevel::avx512_bf16;
}

}  // namespace

void add_product(const at::Tensor& a, const at::Tensor& b, at::Tensor& sum) {
  const bool first = !sum.defined();
  if (has_wide_product(a, b)) {
    constexpr int row_major = 101, as_it_is = 111, transposed = 112;
    const at::Tensor left = a.contiguous(), right = b.contiguous();
    const int rows = static_cast<int>(a.size(0)), out = static_cast<int>(a.size(1)),
              in = static_cast<int>(b.size(1));
    if (first) sum = at::empty({out, in}, a.options().dtype(at::kFloat));
    cblas_gemm_bf16bf16f32(row_major, transposed, as_it_is, out, in, rows, 1, left.const_data_ptr(),
                           out, right.const_data_ptr(), in, first ? 0 : 1, sum.data_ptr<float>(),
                           in);
  } else if (first) {
    sum = at::mm(a.t(), b).to(at::kFloat);
  } else if (a.scalar_type() == at::kFloat) {
    sum.addmm_(a.t(), b);
  } else {
    sum.add_(at::mm(a.t(), b).to(at::kFloat));
  }
}

}  // namespace sluice
