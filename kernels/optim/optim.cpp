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

struct Piece {
  std::size_t slot;
  std::int64_t begin, end;
  bool is_here;
};

// All tensors cut into blocks, so that small and large ones share the threads evenly.
std::vector<Piece> pieces(const std::vector<Slot>& slots) {
  std::vector<Piece> out;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].grad.defined()) continue;
    const Slot& s = slots[i];
    const std::int64_t n = s.weight.numel();
    for (std::int64_t b = 0; b < n; b += optim_block)
      out.push_back(
          {i, b, std::min(n, b + optim_block), !s.is_part() || (b >= s.begin && b < s.end)});
  }
  return out;
}

float* at_begin(const at::Tensor& t, const Piece& p) {
  return t.defined() ? t.data_ptr<float>() + p.begin : nullptr;
}
// Of a slot's gradient or moments.
float* at_begin(const Slot& s, const at::Tensor& t, const Piece& p) {
  float* begin = at_begin(t, p);
  return begin && s.is_part() ? begin - s.begin : begin;
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

// The sum over each slot's pieces of what `of` gives for a piece: the same whatever the threads.
template <class F>
std::vector<double> sums_by_slot(const std::vector<Slot>& slots, const std::vector<Piece>& list,
                                 const Unite& unite, const F& of) {
  std::vector<double> sums(slots.size(), 0), parts(list.size(), 0);
  team_for(static_cast<std::int64_t>(list.size()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (list[i].is_here) parts[i] = of(list[i]);
  });
  if (unite) unite(parts);
  for (std::size_t i = 0; i < list.size(); ++i) sums[list[i].slot] += parts[i];
  return sums;
}

// ---- on the host --------------------------------------------------------------------------------

// kernels::OneNumber on one number or sixteen. What is contracted to one rounding is left to the
// compiler.
struct Numbers {
  template <class V, class A>
  SLUICE_INLINE static V mad(const A& a, const V& b, const V& c) {
    return a * b + c;
  }
  template <class V, class A, class B>
  SLUICE_INLINE static V mad2(const A& a, const V& b, const B& c, const V& d) {
    return a * b + c * d;
  }
  template <class V>
  SLUICE_INLINE static V mad(const V& a, float b, float c) {
    return a * b + c;
  }
  template <class V>
  SLUICE_INLINE static V root(const V& x) {
    return sqrt_v<V>(x);
  }
  template <class V>
  SLUICE_INLINE static V larger(const V& a, const V& b) {
    return a > b ? a : b;
  }
  template <class V>
  SLUICE_INLINE static V bounded(const V& x, float bound) {
    const V low = x < -bound ? V{} - bound : x;
    return low > bound ? V{} + bound : low;
  }
  template <class V>
  SLUICE_INLINE static V magnitude(const V& x) {
    return x < 0 ? -x : x;
  }
  template <class V>
  SLUICE_INLINE static V sign(const V& x) {
    return x > 0 ? V{} + 1 : x < 0 ? V{} - 1 : V{};
  }
};

// OptimValue::updated over one piece. What is the same for all weights is known when it is
// compiled, so that no choice is left in the loop.
template <OptimKind kind, bool bounded>
void update_piece(const Slot& t, const Piece& p, const OptimValue& value) {
  constexpr bool of_tensor = kind == OptimKind::novograd;  // second and third: see norm_scale()
  float *w = at_begin(t.weight, p), *first = at_begin(t, t.first, p);
  float* second = of_tensor ? nullptr : at_begin(t, t.second, p);
  float* third = of_tensor ? nullptr : at_begin(t, t.third, p);
  const float* grad = at_begin(t, t.grad, p);
  simd([=, n = p.end - p.begin]() SLUICE_INLINE {
    each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      OptimValue v = value;
      v.kind = kind;
      if (!bounded) v.bound = 0;
      V a{}, b{}, c{};
      if (first) a = load<V>(first + i);
      if (second) b = load<V>(second + i);
      if (third) c = load<V>(third + i);
      const V x = v.updated<Numbers>(load<V>(w + i), load<V>(grad + i), a, b, c);
      if (first) store(first + i, a);
      if (second) store(second + i, b);
      if (third) store(third + i, c);
      store(w + i, x);
    });
  });
}

// LAMB's first part over one piece: the moments.
void lamb_moments(const Slot& t, const Piece& p, const OptimValue& value) {
  float *first = at_begin(t, t.first, p), *second = at_begin(t, t.second, p);
  const float* grad = at_begin(t, t.grad, p);
  simd([=, n = p.end - p.begin]() SLUICE_INLINE {
    each(n, [=]<class V>(V, std::int64_t i) SLUICE_INLINE {
      V a = load<V>(first + i), b = load<V>(second + i);
      value.moments<Numbers>(value.plain<Numbers>(load<V>(grad + i)), a, b);
      store(first + i, a);
      store(second + i, b);
    });
  });
}
double direction_square_sum(const Slot& t, const Piece& p, const OptimValue& v) {
  std::vector<float> along(static_cast<std::size_t>(p.end - p.begin));
  if (v.kind == OptimKind::lamb) {
    lamb_moments(t, p, v);
    const float *w = at_begin(t.weight, p), *a = at_begin(t, t.first, p),
                *b = at_begin(t, t.second, p);
    for (std::size_t i = 0; i < along.size(); ++i)
      along[i] = v.direction<Numbers>(w[i], a[i], b[i]);
  } else {
    const float* g = at_begin(t, t.grad, p);
    for (std::size_t i = 0; i < along.size(); ++i) along[i] = v.plain<Numbers>(g[i]);
  }
  return square_sum(along.data(), p.end - p.begin);
}

template <std::size_t... kinds>
void update_piece(const Slot& t, const Piece& p, const OptimValue& v,
                  std::index_sequence<kinds...>) {
  const auto one = [&]<std::size_t k>(std::integral_constant<std::size_t, k>) {
    if (static_cast<std::size_t>(v.kind) != k) return;
    if (v.bound > 0)
      update_piece<static_cast<OptimKind>(k), true>(t, p, v);
    else
      update_piece<static_cast<OptimKind>(k), false>(t, p, v);
  };
  (one(std::integral_constant<std::size_t, kinds>{}), ...);
}

// ---- on a CUDA device ---------------------------------------------------------------------------

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
    t.third = floats(s.third);
    t.size = s.weight.numel();
    t.since = s.since;
    t.lr = s.lr;
    t.weight_decay = s.weight_decay;
    tensors.push_back(t);
  }
  return tensors;
}

// Novograd's tensor: its second moment's update.
float norm_scale(const OptimRule& rule, const Slot& t, double squares) {
  if (!t.grad.defined()) return 1;
  float second = t.second.item<float>(), largest = t.third.defined() ? t.third.item<float>() : 0;
  const float scale =
      kernels::novograd_scale(rule, squares, &second, t.third.defined() ? &largest : nullptr);
  t.second.fill_(second);
  if (t.third.defined()) t.third.fill_(largest);
  return scale;
}

void host_step(std::vector<Slot>& slots, const OptimRule& rule, OptimMemory& memory,
               const Unite& unite) {
  const auto list = pieces(slots);
  const std::vector<double> squares = sums_by_slot(slots, list, unite, [&](const Piece& p) {
    return square_sum(at_begin(slots[p.slot], slots[p.slot].grad, p), p.end - p.begin);
  });
  OptimState state = memory.read();
  kernels::decide(rule, std::accumulate(squares.begin(), squares.end(), 0.0), state);
  memory.write(state);
  if (state.skip) return;
  std::vector<OptimValue> values;
  const auto value = [&](const Slot& s, float scale) {
    return OptimValue::of(rule, state, s.lr, s.weight_decay, scale, s.since);
  };
  const bool by_norm = rule.kind == OptimKind::novograd;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool known = by_norm && !rule.measures();
    values.push_back(value(
        slots[i],
        known ? norm_scale(rule, slots[i], kernels::plain_squares(state, squares[i])) : 1.0F));
  }
  if (rule.measures()) {
    const auto directions = sums_by_slot(slots, list, unite, [&](const Piece& p) {
      return direction_square_sum(slots[p.slot], p, values[p.slot]);
    });
    const auto weights = sums_by_slot(slots, list, unite, [&](const Piece& p) {
      return square_sum(at_begin(slots[p.slot].weight, p), p.end - p.begin);
    });
    for (std::size_t i = 0; i < slots.size(); ++i)
      values[i] = value(slots[i], by_norm ? norm_scale(rule, slots[i], directions[i])
                                          : kernels::trust_ratio(rule, weights[i], directions[i],
                                                                 slots[i].weight_decay));
  }
  team_for(static_cast<std::int64_t>(list.size()), [&](std::int64_t begin, std::int64_t end) {
    constexpr auto kinds = static_cast<std::size_t>(OptimKind::lamb) + 1;
    for (std::int64_t i = begin; i < end; ++i) {
      const Piece& p = list[static_cast<std::size_t>(i)];
      if (!p.is_here) continue;
      update_piece(slots[p.slot], p, values[p.slot], std::make_index_sequence<kinds>{});
    }
  });
}

// ---- tensors as the kernels want them -----------------------------------------------------------

bool is_plain(const at::Tensor& t, const at::Tensor& weight) {
  return !t.defined() || (t.scalar_type() == at::kFloat && t.device() == weight.device() &&
                          (t.numel() == 1 || same_order(t, weight)));
}

// float32 in the weight's order, where the weight is.
at::Tensor plain(const at::Tensor& t, const at::Tensor& weight) {
  if (is_plain(t, weight)) return t;
  if (t.numel() == 1) return t.to(weight.device(), at::kFloat);
  return at::empty_like(weight).copy_(t);
}

Slot plain(const Slot& s) {
  if (!s.grad.defined() || s.is_part()) return s;
  Slot out = s;
  const bool on_device = cuda_takes(s.weight);
  out.weight = s.weight.to(on_device ? s.weight.device() : at::kCPU, at::kFloat);
  if (!out.weight.is_non_overlapping_and_dense()) out.weight = out.weight.contiguous();
  const auto type = s.grad.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;  // a device's kernels read them
  if (!on_device || !half || !same_order(s.grad, out.weight)) out.grad = plain(s.grad, out.weight);
  for (at::Tensor* x : {&out.first, &out.second, &out.third}) *x = plain(*x, out.weight);
  return out;
}

void give_back(const Slot& from, Slot& to) {
  if (!from.weight.is_same(to.weight)) to.weight.copy_(from.weight);
  for (const auto member : {&Slot::first, &Slot::second, &Slot::third})
    if ((to.*member).defined() && !(from.*member).is_same(to.*member))
      (to.*member).copy_(from.*member);
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

void add_moments(Slot& slot, const OptimRule& rule, double second) {
  const auto zeros = [&](bool one) {
    if (one) return at::zeros({1}, slot.weight.options());
    return slot.is_part() ? at::zeros({slot.end - slot.begin}, slot.weight.options())
                          : at::zeros_like(slot.weight);
  };
  if (rule.uses_first()) slot.first = zeros(false);
  if (rule.uses_second()) slot.second = zeros(rule.second_of_tensor()).fill_(second);
  if (rule.uses_third()) slot.third = zeros(rule.second_of_tensor());
}

void optim_step(std::vector<Slot>& slots, const OptimRule& rule, OptimMemory& memory,
                const Unite& unite) {
  at::NoGradGuard no_grad;
  std::vector<Slot> all;
  bool any = false;
  for (const Slot& s : slots) all.push_back(plain(s)), any |= s.grad.defined();
  if (any && cuda_takes(all.front().weight))
    OptimMemory::device_step(all, rule, memory);
  else
    host_step(all, rule, memory, unite);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    give_back(all[i], slots[i]);
    // A kernel's writes are not counted by LibTorch.
    if (slots[i].grad.defined()) slots[i].weight.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace sluice
