#include "kernels/optim.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda_library.h"
#include "kernels/simd.h"
#include "kernels/team.h"

namespace sluice {
namespace {

constexpr std::int64_t block = 16384;  // elements

struct Piece {
  std::size_t slot;
  std::int64_t begin, end;
};

// All tensors cut into blocks, so that small and large ones share the threads evenly.
std::vector<Piece> pieces(const std::vector<Slot>& slots) {
  std::vector<Piece> out;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].grad.defined()) continue;
    const std::int64_t n = slots[i].weight.numel();
    for (std::int64_t b = 0; b < n; b += block) out.push_back({i, b, std::min(n, b + block)});
  }
  return out;
}

bool on_cpu(const std::vector<Slot>& slots) {
  return std::all_of(slots.begin(), slots.end(),
                     [](const Slot& s) { return s.weight.device().is_cpu(); });
}

float* at_begin(const at::Tensor& t, const Piece& p) {
  return t.defined() ? t.data_ptr<float>() + p.begin : nullptr;
}

// body(piece, slot) for every piece.
template <class F>
void each_piece(const std::vector<Slot>& slots, const F& body) {
  const auto list = pieces(slots);
  team_for(static_cast<std::int64_t>(list.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(list[i], slots[list[i].slot]);
  });
}

double square_sum(const float* g, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += 1024) {
    float lanes[16] = {};
    const std::int64_t m = std::min<std::int64_t>(1024, n - i);
    for (std::int64_t k = 0; k < m; ++k) lanes[k % 16] += g[i + k] * g[i + k];
    for (float lane : lanes) sum += lane;
  }
  return sum;
}

// The sum of squares of every slot's gradient.
std::vector<double> square_sums(const std::vector<Slot>& slots) {
  std::vector<double> sums(slots.size(), 0);
  if (!on_cpu(slots)) {
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i].grad.defined()) sums[i] = slots[i].grad.pow(2).sum().item<double>();
    return sums;
  }
  const auto list = pieces(slots);
  std::vector<double> parts(list.size());
  team_for(static_cast<std::int64_t>(list.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      parts[i] =
          square_sum(at_begin(slots[list[i].slot].grad, list[i]), list[i].end - list[i].begin);
  });
  for (std::size_t i = 0; i < list.size(); ++i) sums[list[i].slot] += parts[i];
  return sums;
}

void sgd_tensors(const Slot& t, const SgdStep& s) {
  at::Tensor g = s.weight_decay != 0 ? t.grad + s.weight_decay * t.weight : t.grad;
  if (t.first.defined()) {
    t.first.mul_(s.momentum).add_(g);
    g = s.nesterov ? g + s.momentum * t.first : t.first;
  }
  t.weight.sub_(g, s.lr);
}

void adam_tensors(const Slot& t, const AdamStep& s) {
  at::Tensor g = t.grad;
  if (s.decoupled)
    t.weight.mul_(1 - s.lr * s.weight_decay);
  else if (s.weight_decay != 0)
    g = g + s.weight_decay * t.weight;
  t.first.lerp_(g, 1 - s.beta1);
  t.second.mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
  if (t.largest.defined()) t.largest.copy_(at::maximum(t.largest, t.second));
  const double steps = static_cast<double>(s.step);
  const at::Tensor root = (t.largest.defined() ? t.largest : t.second).sqrt();
  const at::Tensor denominator = root / std::sqrt(1 - std::pow(s.beta2, steps)) + s.eps;
  t.weight.addcdiv_(t.first, denominator, -s.lr / (1 - std::pow(s.beta1, steps)));
}

// ---- on a CUDA device ---------------------------------------------------------------------------

// Whether the device's kernels take all of them: contiguous float32 weights and moments.
bool device_takes(const std::vector<Slot>& slots) {
  bool any = false;
  for (const Slot& s : slots) {
    if (!s.grad.defined()) continue;
    any = true;
    const auto t = s.grad.scalar_type();
    if (!cuda_takes(s.weight) || (t != at::kFloat && t != at::kHalf && t != at::kBFloat16))
      return false;
    for (const at::Tensor* x : {&s.weight, &s.first, &s.second, &s.largest})
      if (x->defined() && (x->scalar_type() != at::kFloat || !x->is_non_overlapping_and_dense() ||
                           x->device() != s.weight.device()))
        return false;
    // Elements are taken in memory order, so weight, gradient and moments must share it.
    if (s.grad.strides() != s.weight.strides()) return false;
    for (const at::Tensor* x : {&s.first, &s.second, &s.largest})
      if (x->defined() && x->numel() > 1 && x->strides() != s.weight.strides()) return false;
  }
  return any;
}

// Two launches for all tensors, without a wait.
void device_step(const std::vector<Slot>& slots, const kernels::OptimRule& rule,
                 std::int64_t steps_before) {
  std::vector<kernels::OptimTensor> tensors;
  const at::Tensor* some = nullptr;
  for (const Slot& s : slots) {
    if (!s.grad.defined()) continue;
    some = &s.weight;
    const auto floats = [](const at::Tensor& t) {
      return t.defined() ? t.data_ptr<float>() : nullptr;
    };
    kernels::OptimTensor t;
    t.weight = floats(s.weight);
    t.grad = s.grad.const_data_ptr();
    t.grad_type = cuda_type(s.grad);
    t.first = floats(s.first);
    t.second = floats(s.second);
    t.largest = floats(s.largest);
    t.size = s.weight.numel();
    tensors.push_back(t);
  }
  const CudaCall cuda(*some);
  const int n = static_cast<int>(tensors.size());
  const at::Tensor plan = cuda.memory(cuda.table.optim_bytes(tensors.data(), n));
  const at::Tensor state = cuda.memory(sizeof(kernels::OptimState));
  kernels::OptimState begin;
  begin.step = steps_before;
  cuda.require(cuda.table.copy(state.data_ptr(), &begin, sizeof begin, cuda.stream));
  cuda.require(cuda.table.optim_plan(tensors.data(), n, plan.data_ptr(), cuda.stream));
  cuda.require(cuda.table.optim_step(tensors.data(), n, plan.data_ptr(), rule,
                                     static_cast<kernels::OptimState*>(state.data_ptr()),
                                     cuda.stream));
}

bool any_largest(const std::vector<Slot>& slots) {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return s.largest.defined(); });
}

}  // namespace

double grad_norm(const std::vector<Slot>& slots) {
  double sum = 0;
  for (double s : square_sums(slots)) sum += s;
  return std::sqrt(sum);
}

void sgd_step(std::vector<Slot>& slots, const SgdStep& s) {
  at::NoGradGuard no_grad;
  if (device_takes(slots)) {
    kernels::OptimRule r;
    r.lr = s.lr;
    r.momentum = s.momentum;
    r.weight_decay = s.weight_decay;
    r.nesterov = s.nesterov;
    return device_step(slots, r, 0);
  }
  if (!on_cpu(slots)) {
    for (const auto& t : slots)
      if (t.grad.defined()) sgd_tensors(t, s);
    return;
  }
  const auto lr = static_cast<float>(s.lr), momentum = static_cast<float>(s.momentum);
  const auto decay = static_cast<float>(s.weight_decay);
  const bool nesterov = s.nesterov;
  each_piece(slots, [=](const Piece& p, const Slot& t) {
    float *w = at_begin(t.weight, p), *buf = at_begin(t.first, p);
    const float* grad = at_begin(t.grad, p);
    simd([=, n = p.end - p.begin]() SLUICE_INLINE {
      each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
        V g = load<V>(grad + i) + decay * load<V>(w + i);
        if (buf) {
          const V b = momentum * load<V>(buf + i) + g;
          store(buf + i, b);
          g = nesterov ? g + momentum * b : b;
        }
        store(w + i, load<V>(w + i) - lr * g);
      });
    });
  });
}

void adam_step(std::vector<Slot>& slots, const AdamStep& s) {
  at::NoGradGuard no_grad;
  if (device_takes(slots)) {
    kernels::OptimRule r;
    r.kind = kernels::OptimKind::adam;
    r.lr = s.lr;
    r.beta1 = s.beta1;
    r.beta2 = s.beta2;
    r.eps = s.eps;
    r.weight_decay = s.weight_decay;
    r.decoupled = s.decoupled;
    r.amsgrad = any_largest(slots);
    return device_step(slots, r, s.step - 1);
  }
  if (!on_cpu(slots)) {
    for (const auto& t : slots)
      if (t.grad.defined()) adam_tensors(t, s);
    return;
  }
  const double steps = static_cast<double>(s.step);
  const auto b1 = static_cast<float>(s.beta1), b2 = static_cast<float>(s.beta2);
  const auto rest1 = static_cast<float>(1 - s.beta1), rest2 = static_cast<float>(1 - s.beta2);
  const auto eps = static_cast<float>(s.eps);
  const auto rate = static_cast<float>(s.lr / (1 - std::pow(s.beta1, steps)));
  const auto scale = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, steps)));
  const auto l2 = static_cast<float>(s.decoupled ? 0 : s.weight_decay);
  const auto shrink = static_cast<float>(s.decoupled ? 1 - s.lr * s.weight_decay : 1);
  each_piece(slots, [=](const Piece& p, const Slot& t) {
    float *w = at_begin(t.weight, p), *m = at_begin(t.first, p), *v = at_begin(t.second, p);
    float* top = at_begin(t.largest, p);
    const float* grad = at_begin(t.grad, p);
    simd([=, n = p.end - p.begin]() SLUICE_INLINE {
      each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
        const V x = load<V>(w + i) * shrink;
        const V g = load<V>(grad + i) + l2 * x;
        const V first = b1 * load<V>(m + i) + rest1 * g;
        V second = b2 * load<V>(v + i) + rest2 * g * g;
        store(m + i, first);
        store(v + i, second);
        if (top) {
          const V before = load<V>(top + i);
          second = before > second ? before : second;
          store(top + i, second);
        }
        store(w + i, x - rate * first / (sqrt_v<V>(second) * scale + eps));
      });
    });
  });
}

void novograd_step(std::vector<Slot>& slots, const NovogradStep& s) {
  at::NoGradGuard no_grad;
  if (device_takes(slots)) {
    kernels::OptimRule r;
    r.kind = kernels::OptimKind::novograd;
    r.lr = s.lr;
    r.beta1 = s.beta1;
    r.beta2 = s.beta2;
    r.eps = s.eps;
    r.weight_decay = s.weight_decay;
    r.grad_averaging = s.grad_averaging;
    r.amsgrad = any_largest(slots);
    return device_step(slots, r, 0);
  }
  const auto sums = square_sums(slots);
  std::vector<float> scale(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].grad.defined()) continue;
    double v = slots[i].second.item<double>();
    v = v == 0 ? sums[i] : s.beta2 * v + (1 - s.beta2) * sums[i];
    slots[i].second.fill_(v);
    if (slots[i].largest.defined()) {
      v = std::max(v, slots[i].largest.item<double>());
      slots[i].largest.fill_(v);
    }
    scale[i] = static_cast<float>(1 / (std::sqrt(v) + s.eps));
  }
  const auto b1 = static_cast<float>(s.beta1), lr = static_cast<float>(s.lr);
  const auto decay = static_cast<float>(s.weight_decay);
  const float rest = s.grad_averaging ? static_cast<float>(1 - s.beta1) : 1.f;
  if (!on_cpu(slots)) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i].grad.defined()) continue;
      slots[i].first.mul_(b1).add_((slots[i].grad * scale[i] + decay * slots[i].weight) * rest);
      slots[i].weight.sub_(slots[i].first, lr);
    }
    return;
  }
  each_piece(slots, [&](const Piece& p, const Slot& t) {
    float *w = at_begin(t.weight, p), *m = at_begin(t.first, p);
    const float *grad = at_begin(t.grad, p), inverse = scale[p.slot];
    simd([=, n = p.end - p.begin]() SLUICE_INLINE {
      each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
        const V x = load<V>(w + i);
        const V first = b1 * load<V>(m + i) + rest * (load<V>(grad + i) * inverse + decay * x);
        store(m + i, first);
        store(w + i, x - lr * first);
      });
    });
  });
}

}  // namespace sluice
