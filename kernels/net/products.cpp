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

// A matrix as its numbers lie in memory, row by row, and whether that is its transpose.
struct Stored {
  explicit Stored(const at::Tensor& t)
      : transposed(!t.is_contiguous() && t.t().is_contiguous()),
        rows(transposed ? t.t() : t.contiguous()) {}
  bool transposed;
  at::Tensor rows;
};

void add_wide(const at::Tensor& a, const at::Tensor& b, bool first, at::Tensor& sum) {
  constexpr int row_major = 101, as_it_is = 111, transposed = 112;
  const Stored left(a), right(b);
  const auto way = [](const Stored& m) { return m.transposed ? transposed : as_it_is; };
  const auto width = [](const Stored& m) { return static_cast<int>(m.rows.size(1)); };
  cblas_gemm_bf16bf16f32(row_major, way(left), way(right), static_cast<int>(a.size(0)),
                         static_cast<int>(b.size(1)), static_cast<int>(a.size(1)), 1,
                         left.rows.const_data_ptr(), width(left), right.rows.const_data_ptr(),
                         width(right), first ? 0 : 1, sum.data_ptr<float>(),
                         static_cast<int>(b.size(1)));
}

}  // namespace

at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b) {
  if (!has_wide_product(a, b)) return at::mm(a, b).to(at::kFloat);
  at::Tensor product = at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
  add_wide(a, b, true, product);
  return product;
}

void add_product(const at::Tensor& a, const at::Tensor& b, at::Tensor& sum) {
  if (!sum.defined())
    sum = wide_product(a.t(), b);
  else if (has_wide_product(a, b))
    add_wide(a.t(), b, false, sum);
  else if (a.scalar_type() == at::kFloat)
    sum.addmm_(a.t(), b);
  else
    sum.add_(at::mm(a.t(), b).to(at::kFloat));
}

}  // namespace sluice
