#include "kernels/image/bias_field.h"

#include <array>

#include "kernels/base/intensity_math.h"
#include "kernels/base/into.h"
#include "kernels/image/float_image.h"

namespace sluice::kernels {
namespace {

// P_k at `size` points from -1 to 1, [degree + 1][size], by Bonnet's recursion.
std::vector<double> legendre(int degree, std::int64_t size) {
  std::vector<double> p((degree + 1) * size, 1.0);
  for (std::int64_t i = 0; i < size; ++i) {
    const double step = size > 1 ? 2.0 / static_cast<double>(size - 1) : 0.0;
    const double x = static_cast<float>(-1.0 + step * static_cast<double>(i));
    if (degree > 0) p[size + i] = x;
    for (int k = 2; k <= degree; ++k)
      p[k * size + i] =
          ((2 * k - 1) * x * p[(k - 1) * size + i] - (k - 1) * p[(k - 2) * size + i]) / k;
  }
  return p;
}

// Sums the first axis away: `table` [degree + 1][rest] and the axis's polynomials at point i.
std::vector<double> contract(const std::vector<double>& table, int degree,
                             const std::vector<double>& p, std::int64_t size, std::int64_t i) {
  const std::size_t rest = table.size() / (degree + 1);
  std::vector<double> out(rest, 0.0);
  for (int k = 0; k <= degree; ++k)
    for (std::size_t j = 0; j < rest; ++j) out[j] += table[k * rest + j] * p[k * size + i];
  return out;
}

// exp of one row of the field: row[z] = exp(sum over k of c[k] P_k(z)).
void field_row(const std::vector<double>& c, const std::vector<float>& p, std::int64_t size,
               float* row) {
  for (std::int64_t z = 0; z < size; ++z) row[z] = static_cast<float>(c[0]);
  for (std::size_t k = 1; k < c.size(); ++k) {
    const float ck = static_cast<float>(c[k]);
    const float* pk = p.data() + k * size;
    for (std::int64_t z = 0; z < size; ++z) row[z] += ck * pk[z];
  }
#pragma omp simd
  for (std::int64_t z = 0; z < size; ++z) row[z] = exp_bounded(row[z]);
}

}  // namespace

std::int64_t bias_coefficients(int rank, int degree) {
  return rank == 2 ? (degree + 1) * (degree + 2) / 2
                   : (degree + 1) * (degree + 2) * (degree + 3) / 6;
}

std::vector<double> bias_table(int rank, int degree, const std::vector<double>& coefficients) {
  const int n = degree + 1;
  std::vector<double> table(rank == 2 ? n * n : n * n * n, 0.0);
  std::size_t next = 0;
  for (int i = 0; i < n; ++i)
    if (rank == 2) {
      for (int j = 0; j <= i; ++j) table[i * n + j] = coefficients.at(next++);
    } else {
      for (int j = 0; j < n - i; ++j)
        for (int k = 0; k < n - i - j; ++k) table[(i * n + j) * n + k] = coefficients.at(next++);
    }
  return table;
}

std::vector<double> cubic_coefficients(int degree, const std::vector<double>& table) {
  std::vector<double> free;
  const int n = degree + 1;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4 - i; ++j)
      for (int k = 0; k < 4 - i - j; ++k)
        free.push_back(i + j + k <= degree ? table[(i * n + j) * n + k] : 0);
  return free;
}

at::Tensor apply_bias_field(const at::Tensor& image, int degree, const std::vector<double>& table,
                            const at::Tensor& into) {
  const at::Tensor x = float_image(image);
  const at::Tensor out = room(into, x.sizes(), x.options());
  const bool volume = x.dim() == 4;  // an image in 2-D is a volume of one slice
  const std::int64_t sx = volume ? x.size(1) : 1, sy = x.size(-2), sz = x.size(-1);
  const auto px = legendre(degree, sx), py = legendre(degree, sy), pz = legendre(degree, sz);
  const std::vector<float> last(pz.begin(), pz.end());
  std::vector<float> row(sz);
  for (std::int64_t i = 0; i < sx; ++i) {
    const auto plane = volume ? contract(table, degree, px, sx, i) : table;
    for (std::int64_t j = 0; j < sy; ++j) {
      field_row(contract(plane, degree, py, sy, j), last, sz, row.data());
      for (std::int64_t c = 0; c < x.size(0); ++c) {
        const std::int64_t at = ((c * sx + i) * sy + j) * sz;
        const float* from = x.const_data_ptr<float>() + at;
        float* to = out.mutable_data_ptr<float>() + at;
        for (std::int64_t z = 0; z < sz; ++z) to[z] = from[z] * row[z];
      }
    }
  }
  return out;
}

}  // namespace sluice::kernels
