#include "kernels/image/mixture.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"
#include "kernels/image/mixture_voxel.h"

namespace sluice {
namespace {

constexpr double least_variance = 1e-5;

// The numbers of one class's voxels, colour by colour, and the component that each belongs to.
struct Members {
  int colours = 0;
  std::int64_t n = 0;
  std::vector<double> value;  // [colours, n]
  std::vector<int> component;
};

struct Moments {
  double count = 0;
  std::vector<double> mean, covariance;  // [C], [C, C]
};

// Voxels are summed and counted by blocks, whose number does not depend on that of threads.
constexpr std::int64_t block = 4096;
std::int64_t blocks_of(std::int64_t n) { return (n + block - 1) / block; }
template <class F>  // body(block, first voxel, the one after the last)
void each_block(std::int64_t n, F&& body) {
  team_for(blocks_of(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) body(b, b * block, std::min(n, (b + 1) * block));
  });
}

// image [C, N], label [N], on the host, contiguous; T: the image's type.
template <class T>
Members members_of(const at::Tensor& image, const at::Tensor& label, std::int64_t of) {
  Members m;
  m.colours = static_cast<int>(image.size(0));
  const std::int64_t n = image.size(1);
  const T* x = image.const_data_ptr<T>();
  const auto* at = label.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> before(blocks_of(n) + 1);
  each_block(n, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    before[b + 1] = std::count(at + begin, at + end, of);
  });
  std::partial_sum(before.begin(), before.end(), before.begin());
  m.n = before.back();
  m.value.resize(m.colours * m.n);
  m.component.assign(m.n, 0);
  each_block(n, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin, to = before[b]; i < end; ++i) {
      if (at[i] != of) continue;
      for (int c = 0; c < m.colours; ++c) m.value[c * m.n + to] = x[c * n + i];
      ++to;
    }
  });
  return m;
}

// Of one component, about `origin`; the covariance is biased.
Moments moments(const Members& m, int component) {
  const int C = m.colours;
  const std::int64_t blocks = blocks_of(m.n), terms = 1 + C + C * C;
  std::vector<double> origin(C), sums(blocks * terms);
  const auto first = std::find(m.component.begin(), m.component.end(), component);
  if (first != m.component.end())
    for (int c = 0; c < C; ++c) origin[c] = m.value[c * m.n + (first - m.component.begin())];
  each_block(m.n, [&](std::int64_t b, std::int64_t begin, std::int64_t end) {
    std::vector<double> x(C);
    double *sum = sums.data() + b * terms, *square = sum + 1 + C;
    for (std::int64_t i = begin; i < end; ++i) {
      if (m.component[i] != component) continue;
      ++sum[0];
      for (int c = 0; c < C; ++c) {
        x[c] = m.value[c * m.n + i] - origin[c];
        sum[1 + c] += x[c];
        for (int d = 0; d <= c; ++d) square[c * C + d] += x[c] * x[d];
      }
    }
  });
  for (std::int64_t b = 1; b < blocks; ++b)
    for (std::int64_t t = 0; t < terms; ++t) sums[t] += sums[b * terms + t];
  Moments out;
  out.mean.assign(C, 0);
  out.covariance.assign(C * C, 0);
  out.count = blocks > 0 ? sums[0] : 0;
  for (int c = 0; c < C && out.count > 0; ++c) {
    const double mean = sums[1 + c] / out.count;
    out.mean[c] = origin[c] + mean;
    for (int d = 0; d <= c; ++d)
      out.covariance[c * C + d] = out.covariance[d * C + c] =
          sums[1 + C + c * C + d] / out.count - mean * (sums[1 + d] / out.count);
  }
  for (int c = 0; c < C; ++c) out.covariance[c * C + c] += least_variance;
  return out;
}

// The direction of the largest variance by ten steps of the power method, and its eigenvalue.
std::pair<std::vector<double>, double> principal(const std::vector<double>& covariance, int C) {
  std::vector<double> v(C), next(C);
  for (int c = 0; c < C; ++c) v[c] = c + 1;
  double largest = 0;
  for (int step = 0; step < 10; ++step) {
    largest = 0;
    for (int c = 0; c < C; ++c) {
      next[c] = 0;
      for (int d = 0; d < C; ++d) next[c] += covariance[c * C + d] * v[d];
      largest = std::max(largest, next[c]);
    }
    for (int c = 0; c < C; ++c) v[c] = largest > 0 ? next[c] / largest : 0;
  }
  return {v, largest};
}

void split(Members& m, int component, int to, const Moments& at, const std::vector<double>& along) {
  double middle = 0;
  for (int c = 0; c < m.colours; ++c) middle += along[c] * at.mean[c];
  team_for(m.n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (m.component[i] != component) continue;
      double x = 0;
      for (int c = 0; c < m.colours; ++c) x += along[c] * m.value[c * m.n + i];
      if (x > middle) m.component[i] = to;
    }
  });
}

// The Gaussian of these moments; its factor is the density's without a share of the class.
MixtureComponent gaussian_of(const Moments& at, int C) {
  std::vector<double> lower(C * C), inverse(C * C);
  double determinant = 1;
  for (int i = 0; i < C; ++i)
    for (int j = 0; j <= i; ++j) {
      double rest = at.covariance[i * C + j];
      for (int k = 0; k < j; ++k) rest -= lower[i * C + k] * lower[j * C + k];
      lower[i * C + j] = i == j ? std::sqrt(std::max(rest, 0.0)) : rest / lower[j * C + j];
    }
  MixtureComponent out{at.count, 0, at.mean, {}};
  for (int i = 0; i < C; ++i) {
    determinant *= lower[i * C + i] * lower[i * C + i];
    const double scale = 1 / (lower[i * C + i] + 1e-4);
    for (int j = 0; j <= i; ++j) {
      double sum = i == j ? 1 : 0;
      for (int k = j; k < i; ++k) sum -= lower[i * C + k] * inverse[k * C + j];
      out.root.push_back(inverse[i * C + j] = sum * scale);
    }
  }
  out.factor = at.count / std::sqrt(determinant + 1e-5);
  return out;
}

std::vector<MixtureComponent> learn_class(Members m, std::int64_t size) {
  const int C = m.colours;
  std::vector<Moments> of{moments(m, 0)};
  for (int k = 1; k < size; ++k) {
    int widest = 0;
    std::vector<double> along;
    double most = -1;
    for (int s = 0; s < k; ++s) {
      const auto [direction, variance] = principal(of[s].covariance, C);
      if (variance > most) widest = s, most = variance, along = direction;
    }
    split(m, widest, k, of[widest], along);
    of[widest] = moments(m, widest);
    of.push_back(moments(m, k));
  }
  std::vector<MixtureComponent> components;
  for (const Moments& at : of) {
    components.push_back(gaussian_of(at, C));
    if (m.n > 0) components.back().factor /= static_cast<double>(m.n);
  }
  return components;
}

void run_there(kernels::MixtureCall<float> call, const at::Tensor& image,
               const std::vector<float>& packed) {
  const at::Tensor numbers = at::tensor(packed, at::kFloat).to(image.device());
  call.packed = numbers.const_data_ptr<float>();
  const CudaCall cuda(image);
  cuda.require(cuda.table.mixture(call, cuda.stream));
}
void run_there(const kernels::MixtureCall<double>&, const at::Tensor&, const std::vector<double>&) {
  throw DataError("a mixture of float64 runs on the host alone");
}

template <class T>
at::Tensor apply(const at::Tensor& given, const Mixture& mixture) {
  constexpr int lanes = 16;
  const at::Tensor image = given.contiguous();
  const int colours = static_cast<int>(image.size(0));
  const std::int64_t n = image.size(1), K = static_cast<std::int64_t>(mixture.size());
  std::vector<T> packed;
  for (const auto& components : mixture)
    for (const MixtureComponent& one : components) {
      packed.push_back(static_cast<T>(one.factor));
      packed.insert(packed.end(), one.mean.begin(), one.mean.end());
      packed.insert(packed.end(), one.root.begin(), one.root.end());
    }
  const at::Tensor out = at::empty({K, n}, image.options());
  kernels::MixtureCall<T> call{
      colours, n, K, 0, packed.data(), image.const_data_ptr<T>(), out.mutable_data_ptr<T>()};
  if (K > 0) call.components = static_cast<std::int64_t>(mixture[0].size());
  if (image.is_cuda()) {
    run_there(call, image, packed);
    return out;
  }
  team_for((n + lanes - 1) / lanes, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> scratch((1 + colours) * lanes), density(K * lanes);
    const auto some = [&](auto count, std::int64_t i) {
      constexpr int L = decltype(count)::value;
      kernels::mixture_shares<T, L>(call, i, scratch.data(), density.data(), L);
    };
    for (std::int64_t b = begin; b < end; ++b) {
      if (n >= lanes)
        some(std::integral_constant<int, lanes>(), std::min(b * lanes, n - lanes));
      else
        for (std::int64_t i = 0; i < n; ++i) some(std::integral_constant<int, 1>(), i);
    }
  });
  return out;
}

}  // namespace

Mixture learn_mixture(const at::Tensor& image, const at::Tensor& label, std::int64_t classes,
                      std::int64_t size) {
  Mixture mixture;
  const bool wide = image.scalar_type() == at::kDouble;
  at::Tensor x = image, of = label;
  if (image.is_cuda()) {  // the few that are learnt from leave the device
    const at::Tensor some = at::ge(label, 0).nonzero().reshape(-1);
    x = image.index_select(1, some), of = label.index_select(0, some);
  }
  x = x.to(at::kCPU).contiguous(), of = of.to(at::kCPU).contiguous();
  for (std::int64_t k = 0; k < classes; ++k)
    mixture.push_back(
        learn_class(wide ? members_of<double>(x, of, k) : members_of<float>(x, of, k), size));
  return mixture;
}

at::Tensor apply_mixture(const at::Tensor& image, const Mixture& mixture) {
  return image.scalar_type() == at::kDouble ? apply<double>(image, mixture)
                                            : apply<float>(image, mixture);
}

}  // namespace sluice
