// The functors that the device runs against the kernels that the CPU runs: the same numbers.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "kernels/loss/dice_ce_voxel.h"
#include "kernels/loss/terms.h"
#include "kernels/net/norm_act.h"
#include "kernels/net/norm_act_value.h"
#include "kernels/optim/optim.h"
#include "kernels/optim/optim_value.h"
#include "tests/kernels/optim_by_functor.h"
#include "tests/nearness.h"

using namespace sluice;
using namespace sluice::kernels;

namespace {

at::Tensor sines(at::IntArrayRef shape, double first) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble) + first;
  return at::sin(k * k * 0.37).to(at::kFloat).reshape(shape);
}
}  // namespace

TEST_CASE("half and bfloat16 round as LibTorch rounds them, both ways, for every bit pattern") {
  at::Tensor bits = at::empty({65536}, at::kShort);
  auto* b = static_cast<std::uint16_t*>(bits.mutable_data_ptr());
  for (int i = 0; i < 65536; ++i) b[i] = static_cast<std::uint16_t>(i);
  const auto same = [](float x, float y) { return bits_of(x) == bits_of(y) || (x != x && y != y); };
  const at::Tensor halves = bits.view(at::kHalf).to(at::kFloat);
  const at::Tensor brains = bits.view(at::kBFloat16).to(at::kFloat);
  // Between neighbours lie the ties and what rounds either way.
  const at::Tensor probes = at::cat({halves, halves * 1.00048828125f, halves * 1.0003f,
                                     brains * 1.00390625f, sines({4096}, 1) * 7e4});
  const at::Tensor as_half = probes.to(at::kHalf).view(at::kShort).contiguous();
  const at::Tensor as_brain = probes.to(at::kBFloat16).view(at::kShort).contiguous();
  int wrong = 0;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto h = static_cast<std::uint16_t>(i);
    wrong += !same(to_float(Half{h}), halves.const_data_ptr<float>()[i]);
    wrong += !same(to_float(Brain{h}), brains.const_data_ptr<float>()[i]);
  }
  CHECK(wrong == 0);
  for (std::int64_t i = 0; i < probes.numel(); ++i) {
    const float x = probes.const_data_ptr<float>()[i];
    if (x != x) continue;  // a NaN stays one; which one is nobody's business
    Half h;
    Brain r;
    from_float(x, h);
    from_float(x, r);
    wrong += h.bits != static_cast<std::uint16_t>(as_half.const_data_ptr<std::int16_t>()[i]);
    wrong += r.bits != static_cast<std::uint16_t>(as_brain.const_data_ptr<std::int16_t>()[i]);
  }
  CHECK(wrong == 0);
}

TEST_CASE("the norm's functor equals the kernel, forward and backward") {
  const at::Tensor x =
      (sines({2, 3, 5, 6, 7}, 3) * 2 + 5).contiguous(at::MemoryFormat::ChannelsLast3d);
  const at::Tensor g = sines({2, 3, 5, 6, 7}, 5).contiguous(at::MemoryFormat::ChannelsLast3d);
  const NormStats s = norm_stats(x, true);
  const NormAct p{s.mean, (s.variance + 1e-5).rsqrt(), sines({3}, 1) + 1.5, sines({3}, 2),
                  at::full({1}, 0.25)};
  const at::Tensor y = norm_act(x, p, g);
  const NormActGrad d = norm_act_backward(g, x, p);
  at::Tensor mine = at::empty_like(x), dx = at::empty_like(x);
  double slope = 0;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c) {
      const auto f = NormActValue::of(p.mean[n][c].item<float>(), p.rstd[n][c].item<float>(),
                                      p.gamma[c].item<float>(), p.beta[c].item<float>(), 0.25f);
      const at::Tensor from = x[n][c].contiguous(), grad = g[n][c].contiguous();
      const float *v = from.const_data_ptr<float>(), *q = grad.const_data_ptr<float>();
      at::Tensor to = at::empty_like(from), back = at::empty_like(from);
      NormActSums sums;
      for (int i = 0; i < 210; ++i) sums.add(f, v[i], q[i], p.mean[n][c].item<float>());
      const auto part =
          NormActAnswer::part(sums.d, sums.dx, 210, f.scale, p.rstd[n][c].item<float>());
      const auto answer = NormActAnswer::of(&part, 1, p.mean[n][c].item<float>());
      for (int i = 0; i < 210; ++i) {
        to.mutable_data_ptr<float>()[i] = f.forward(v[i], q[i]);
        back.mutable_data_ptr<float>()[i] = f.backward(v[i], q[i], static_cast<float>(answer.by_x),
                                                       static_cast<float>(answer.by_1));
      }
      mine[n][c].copy_(to);
      dx[n][c].copy_(back);
      slope += sums.slope;
    }
  CHECK(relative(mine, y) < 1e-6);
  CHECK(relative(dx, d.input) < 1e-5);
  CHECK(slope == doctest::Approx(d.slope.item<double>()).epsilon(1e-5));
}

TEST_CASE("DiceCE's functor equals the kernel, loss and gradient") {
  constexpr int C = 3, samples = 2, voxels = 4 * 5 * 6;
  const at::Tensor logits = (sines({samples, C, 4, 5, 6}, 2) * 3).requires_grad_();
  const at::Tensor label = (at::arange(samples * voxels) * 7 % C).reshape({samples, 1, 4, 5, 6});
  TargetOptions options;
  options.softmax = options.to_onehot_y = true;
  options.include_background = false;
  options.weight = {1, 2, 0.5};
  const DiceTerm term{.squared_pred = true, .jaccard = true};
  const at::Tensor loss = dice_ce(Target(logits, label, options), term, 1, 0.7);
  loss.backward();
  DiceCeRule r;
  static_cast<TargetParams&>(r) = options;
  static_cast<DiceTerm&>(r) = term;
  r.classes = C;
  r.lambda_ce = 0.7;
  r.ce_weight[1] = 2, r.ce_weight[2] = 0.5f;
  r.dice_weight[1] = 2, r.dice_weight[2] = 0.5;
  const float* z = logits.const_data_ptr<float>();
  const auto voxel = [&](int n, int i) {
    DiceCeVoxel<4> v;  // room for one class more
    v.load(z + n * C * voxels + i, voxels, C,
           static_cast<int>(label.const_data_ptr<std::int64_t>()[n * voxels + i]));
    return v;
  };
  double sums[samples * (3 * C + 1)] = {};
  for (int n = 0; n < samples; ++n) {
    float of_sample[3 * 4 + 1] = {};
    for (int i = 0; i < voxels; ++i) voxel(n, i).add_to(of_sample, r);
    for (int k = 0; k < 3; ++k)
      for (int c = 0; c < C; ++c) sums[n * (3 * C + 1) + k * C + c] = of_sample[4 * k + c];
    sums[n * (3 * C + 1) + 3 * C] = of_sample[12];
  }
  DiceCeSlopes slopes[samples];
  const DiceCeTotal total = dice_ce_finish(r, sums, samples, slopes);
  CHECK(total.loss == doctest::Approx(loss.item<double>()).epsilon(1e-6));
  at::Tensor grad = at::empty({samples, C, voxels});
  for (int n = 0; n < samples; ++n)
    for (int i = 0; i < voxels; ++i) {
      auto v = voxel(n, i);
      v.to_gradient(r, slopes[n].by_i, slopes[n].by_p, static_cast<float>(total.ce));
      for (int c = 0; c < C; ++c) grad.mutable_data_ptr<float>()[(n * C + c) * voxels + i] = v.p[c];
    }
  CHECK(relative(grad, logits.grad().reshape({samples, C, voxels})) < 1e-5);
}

TEST_CASE("the optimizers' functor equals the kernels over several steps") {
  for (const OptimRule& r : test::optim_rules()) {
    CAPTURE(static_cast<int>(r.kind));
    constexpr int n = 300;
    const auto numbers = [](const at::Tensor& t) {
      return std::vector<float>(t.const_data_ptr<float>(), t.const_data_ptr<float>() + t.numel());
    };
    test::OptimByFunctor expected;
    std::vector<Slot> slots(1);
    slots[0].weight = sines({n}, 1);
    slots[0].lr = expected.lr, slots[0].weight_decay = expected.weight_decay;
    add_moments(slots[0], r);
    expected.add(numbers(slots[0].weight));
    OptimMemory memory;
    for (int step = 1; step <= 6; ++step) {
      slots[0].grad = sines({n}, 10 * step);
      optim_step(slots, r, memory);
      expected.step(r, {numbers(slots[0].grad)});
    }
    auto& t = expected.tensors[0];
    CHECK(relative(at::from_blob(t.weight.data(), {n}), slots[0].weight) < 1e-6);
    if (r.uses_first()) CHECK(relative(at::from_blob(t.first.data(), {n}), slots[0].first) < 1e-5);
  }
}
