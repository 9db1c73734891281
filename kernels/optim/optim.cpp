#include "kernels/optim/optim.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/cuda/cuda_library.h"

namespace sluice {

using kernels::OptimKind;
using kernels::OptimRule;
using kernels::OptimState;
using kernels::OptimValue;

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

bool host_takes(const std::vector<Slot>& slots) {
  const auto fits = [](const at::Tensor& t) {
    return !t.defined() ||
           (t.device().is_cpu() && t.scalar_type() == at::kFloat && t.is_contiguous());
  };
  return std::all_of(slots.begin(), slots.end(), [&](const Slot& s) {
    return fits(s.weight) && fits(s.grad) && fits(s.first) && fits(s.second) && fits(s.largest);
  });
}

float* at_begin(const at::Tensor& t, const Piece& p) {
  return t.defined() ? t.data_ptr<float>() + p.begin : nullptr;
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
std::vector<double> square_sums(const std::vector<Slot>& slots, bool host) {
  std::vector<double> sums(slots.size(), 0);
  if (!host) {
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i].grad.defined())
        sums[i] = slots[i].grad.to(at::kDouble).square().sum().item<double>();
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

// ---- with LibTorch's operations -----------------------------------------------------------------

void step_tensors(const Slot& t, const OptimValue& v) {
  at::Tensor g = t.grad.to(t.weight.scalar_type()) * v.gradient;
  if (v.kind == OptimKind::sgd) {
    g = g + v.decay * t.weight;
    if (t.first.defined()) {
      t.first.mul_(v.b1).add_(g);
      g = v.nesterov ? g + v.b1 * t.first : t.first;
    }
    t.weight.sub_(g, v.rate);
    return;
  }
  if (v.kind == OptimKind::novograd) {
    t.first.mul_(v.b1).add_((g * v.norm_scale + v.decay * t.weight) * v.rest1);
    t.weight.sub_(t.first, v.rate);
    return;
  }
  t.weight.mul_(v.shrink);
  g = g + v.decay * t.weight;
  t.first.mul_(v.b1).add_(g, v.rest1);
  t.second.mul_(v.b2).addcmul_(g, g, v.rest2);
  if (t.largest.defined()) t.largest.copy_(at::maximum(t.largest, t.second));
  const at::Tensor& second = t.largest.defined() ? t.largest : t.second;
  t.weight.addcdiv_(t.first, second.sqrt() * v.root + v.eps, -v.rate);
}

// ---- on the host --------------------------------------------------------------------------------

// The pieces' loops below are OptimValue::updated over vectors.
void sgd_piece(const Slot& t, const Piece& p, const OptimValue& v) {
  float *w = at_begin(t.weight, p), *buf = at_begin(t.first, p);
  const float* grad = at_begin(t.grad, p);
  simd([=, n = p.end - p.begin]() SLUICE_INLINE {
    each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      V g = load<V>(grad + i) * v.gradient + v.decay * load<V>(w + i);
      if (buf) {
        const V b = v.b1 * load<V>(buf + i) + g;
        store(buf + i, b);
        g = v.nesterov ? g + v.b1 * b : b;
      }
      store(w + i, load<V>(w + i) - v.rate * g);
    });
  });
}

void adam_piece(const Slot& t, const Piece& p, const OptimValue& v) {
  float *w = at_begin(t.weight, p), *first = at_begin(t.first, p), *second = at_begin(t.second, p);
  float* top = at_begin(t.largest, p);
  const float* grad = at_begin(t.grad, p);
  simd([=, n = p.end - p.begin]() SLUICE_INLINE {
    each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      const V x = load<V>(w + i) * v.shrink;
      const V g = load<V>(grad + i) * v.gradient + v.decay * x;
      const V m = v.b1 * load<V>(first + i) + v.rest1 * g;
      V s = v.b2 * load<V>(second + i) + v.rest2 * g * g;
      store(first + i, m);
      store(second + i, s);
      if (top) {
        const V before = load<V>(top + i);
        s = before > s ? before : s;
        store(top + i, s);
      }
      store(w + i, x - v.rate * m / (sqrt_v<V>(s) * v.root + v.eps));
    });
  });
}

void novograd_piece(const Slot& t, const Piece& p, const OptimValue& v) {
  float *w = at_begin(t.weight, p), *first = at_begin(t.first, p);
  const float *grad = at_begin(t.grad, p), inverse = v.norm_scale * v.gradient;
  simd([=, n = p.end - p.begin]() SLUICE_INLINE {
    each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      const V x = load<V>(w + i);
      const V m = v.b1 * load<V>(first + i) + v.rest1 * (load<V>(grad + i) * inverse + v.decay * x);
      store(first + i, m);
      store(w + i, x - v.rate * m);
    });
  });
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
      if (x->defined() && (x->scalar_type() != at::kFloat || x->device() != s.weight.device()))
        return false;
    // Elements are taken in memory order, so weight, gradient and moments must share it.
    if (!same_order(s.grad, s.weight)) return false;
    for (const at::Tensor* x : {&s.first, &s.second, &s.largest})
      if (x->defined() && x->numel() > 1 && !same_order(*x, s.weight)) return false;
  }
  return any;
}

std::vector<kernels::OptimTensor> device_tensors(const std::vector<Slot>& slots) {
  const auto floats = [](const at::Tensor& t) {
    return t.defined() ? t.data_ptr<float>() : nullptr;
  };
  std::vector<kernels::OptimTensor> tensors;
  for (const Slot& s : slots) {
    if (!s.grad.defined()) continue;
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
  return tensors;
}

// Novograd's tensor: its second moment's update.
float norm_scale(const OptimRule& rule, const OptimState& state, const Slot& t, double squares) {
  if (rule.kind != OptimKind::novograd || !t.grad.defined()) return 1;
  float second = t.second.item<float>(),
        largest = t.largest.defined() ? t.largest.item<float>() : 0;
  const float scale = kernels::novograd_scale(rule, state, squares, &second,
                                              t.largest.defined() ? &largest : nullptr);
  t.second.fill_(second);
  if (t.largest.defined()) t.largest.fill_(largest);
  return scale;
}

void host_step(const std::vector<Slot>& slots, const std::vector<OptimValue>& values) {
  const auto list = pieces(slots);
  team_for(static_cast<std::int64_t>(list.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Piece& p = list[static_cast<std::size_t>(i)];
      const OptimValue& v = values[p.slot];
      if (v.kind == OptimKind::sgd) sgd_piece(slots[p.slot], p, v);
      if (v.kind == OptimKind::adam) adam_piece(slots[p.slot], p, v);
      if (v.kind == OptimKind::novograd) novograd_piece(slots[p.slot], p, v);
    }
  });
}

}  // namespace

bool same_order(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return a.sizes() == b.sizes();
}

OptimMemory::OptimMemory() : bytes_(at::empty({sizeof(OptimState)}, at::kByte)) { write({}); }

OptimState OptimMemory::read() const {
  OptimState state;
  std::memcpy(&state, bytes_.cpu().const_data_ptr(), sizeof state);
  return state;
}

void OptimMemory::write(const OptimState& state) {
  at::Tensor bytes = at::empty({sizeof state}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), &state, sizeof state);
  bytes_.copy_(bytes);
}

void OptimMemory::move_to(const at::Device& device) { bytes_ = bytes_.to(device); }

at::Tensor OptimMemory::loss_scale() const {
  return bytes_.narrow(0, offsetof(OptimState, scale), sizeof(float)).view(at::kFloat);
}

// The tensors as they lie in the device's memory, cut into chunks.
struct OptimMemory::Plan {
  std::vector<kernels::OptimTensor> tensors;
  at::Tensor memory;
};

// Two launches for all tensors, without a wait. Gradients come to lie where they lay at the step
// before, as a rule, and then the device has the list already.
void OptimMemory::device_step(const std::vector<Slot>& slots, const OptimRule& rule,
                              OptimMemory& memory) {
  auto tensors = device_tensors(slots);
  const auto with_grad =
      std::find_if(slots.begin(), slots.end(), [](const Slot& s) { return s.grad.defined(); });
  const CudaCall cuda(with_grad->weight);
  const int n = static_cast<int>(tensors.size());
  if (!memory.plan_ || memory.plan_->tensors != tensors) {
    auto plan = std::make_shared<Plan>();
    plan->memory = cuda.own_memory(cuda.table.optim_bytes(tensors.data(), n));
    cuda.require(cuda.table.optim_plan(tensors.data(), n, plan->memory.data_ptr(), cuda.stream));
    plan->tensors = std::move(tensors);
    memory.plan_ = std::move(plan);
  }
  const Plan& plan = *memory.plan_;
  cuda.require(cuda.table.optim_step(plan.tensors.data(), n, plan.memory.data_ptr(), rule,
                                     static_cast<OptimState*>(memory.bytes_.data_ptr()),
                                     cuda.stream));
}

void optim_step(std::vector<Slot>& slots, const OptimRule& rule, OptimMemory& memory) {
  at::NoGradGuard no_grad;
  if (device_takes(slots)) return OptimMemory::device_step(slots, rule, memory);
  const bool host = host_takes(slots);
  const std::vector<double> sums = square_sums(slots, host);
  OptimState state = memory.read();
  kernels::decide(rule, std::accumulate(sums.begin(), sums.end(), 0.0), state);
  memory.write(state);
  if (state.skip) return;
  std::vector<OptimValue> values;
  for (std::size_t i = 0; i < slots.size(); ++i)
    values.push_back(OptimValue::of(rule, state, norm_scale(rule, state, slots[i], sums[i])));
  if (host) return host_step(slots, values);
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].grad.defined()) step_tensors(slots[i], values[i]);
}

}  // namespace sluice
