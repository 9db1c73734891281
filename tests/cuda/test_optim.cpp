// The optimizers' steps on the device against the same updates by the functor alone.
#include <cmath>
#include <limits>
#include <memory>

#include "tests/cuda/device.h"
#include "tests/kernels/optim_by_functor.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

// Three tensors: one of several chunks, one that ends within a chunk, one of one number.
const std::vector<std::size_t> sizes{40000, 777, 1};

struct Network {
  std::vector<std::unique_ptr<Both<float>>> weight, grad, first, second, third;
  std::vector<OptimTensor> tensors;

  Network(const OptimRule& r, const test::OptimByFunctor& like) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t n = sizes[i], moments = r.second_of_tensor() ? 1 : n;
      weight.push_back(std::make_unique<Both<float>>(like.tensors[i].weight));
      grad.push_back(std::make_unique<Both<float>>(std::vector<float>(n)));
      first.push_back(std::make_unique<Both<float>>(std::vector<float>(n)));
      second.push_back(std::make_unique<Both<float>>(std::vector<float>(moments)));
      third.push_back(std::make_unique<Both<float>>(std::vector<float>(moments)));
      OptimTensor t;
      t.weight = weight[i]->device();
      t.grad = grad[i]->device();
      if (r.uses_first()) t.first = first[i]->device();
      if (r.uses_second()) t.second = second[i]->device();
      if (r.uses_third()) t.third = third[i]->device();
      t.size = static_cast<std::int64_t>(n);
      t.lr = like.lr;
      t.weight_decay = like.weight_decay;
      t.since = like.tensors[i].since;
      tensors.push_back(t);
    }
  }
};

// Numbers as they are in `type`, and to the device.
void upload(std::vector<float>& numbers, VoxelType type, void* to) {
  with_voxel(type, [&](auto one) {
    std::vector<decltype(one)> narrow;
    for (float& x : numbers) {
      from_float(x, one);
      x = to_float(one);
      narrow.push_back(one);
    }
    test::ok(test::cuda().copy(to, narrow.data(), narrow.size() * sizeof one, nullptr));
    test::finish();
  });
}

// The second tensor begins after `since` steps.
void check(const OptimRule& r, std::int64_t since = 0, VoxelType grad_type = VoxelType::f32) {
  test::OptimByFunctor expected;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    expected.add(test::numbers(sizes[i], 10 + i), i == 1 ? since : 0);
  expected.state.scale = 1024;
  expected.state.step = since;
  Network net(r, expected);
  for (OptimTensor& t : net.tensors) t.grad_type = grad_type;
  const auto n = static_cast<int>(net.tensors.size());
  const Both<OptimState> state({expected.state});
  const Both<char> plan(std::vector<char>(test::cuda().optim_bytes(net.tensors.data(), n), '\x5a'));
  test::ok(test::cuda().optim_plan(net.tensors.data(), n, plan.device(), nullptr));
  for (int step = 0; step < 5; ++step) {
    const bool broken = step == 2;  // one gradient of one weight is infinite
    std::vector<std::vector<float>> grads;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const float size = r.scaled ? 1024.0f : 1.0f;
      grads.push_back(test::numbers(sizes[t], 100 * step + t, -size, size));
      if (broken && t == 0) grads[t][12345] = std::numeric_limits<float>::infinity();
      upload(grads[t], grad_type, net.grad[t]->device());
    }
    test::ok(
        test::cuda().optim_step(net.tensors.data(), n, plan.device(), r, state.device(), nullptr));
    expected.step(r, grads);
    const OptimState now = state.read()[0];
    CHECK((now.skip != 0) == broken);
    CHECK(now.step == expected.state.step);
    CHECK(now.scale == expected.state.scale);
  }
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const auto got = net.weight[t]->read();
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst =
          std::max(worst, std::abs(static_cast<double>(got[i]) - expected.tensors[t].weight[i]));
    CHECK(worst < 3e-6);
  }
}

}  // namespace

TEST_CASE("every optimizer's steps on the device, with an infinite gradient among them") {
  SLUICE_NEEDS_GPU();
  for (const OptimRule& r : test::optim_rules()) {
    CAPTURE(static_cast<int>(r.kind));
    check(r);
    OptimRule plain;
    plain.kind = r.kind;
    check(plain);
    check(plain, 7);
  }
}

TEST_CASE("a third number beside each weight, and gradients in 16 bits, on the device") {
  SLUICE_NEEDS_GPU();
  OptimRule novograd;
  novograd.kind = OptimKind::novograd;
  novograd.amsgrad = true;
  OptimRule rmsprop;
  rmsprop.kind = OptimKind::rmsprop;
  rmsprop.centered = true;
  rmsprop.momentum = 0.9;
  rmsprop.eps = 1e-2;  // the difference of two sums is under the root
  OptimRule lamb;
  lamb.kind = OptimKind::lamb;
  for (const OptimRule& r : {novograd, rmsprop, lamb})
    for (const VoxelType type : {VoxelType::f32, VoxelType::f16, VoxelType::bf16}) {
      CAPTURE(static_cast<int>(r.kind));
      CAPTURE(static_cast<int>(type));
      check(r, 0, type);
      OptimRule bounded = r;
      bounded.max_value = 0.5;
      check(bounded, 7, type);
    }
}

TEST_CASE("a schedule by steps is worked out on the device") {
  SLUICE_NEEDS_GPU();
  OptimRule r;
  r.kind = OptimKind::adam;
  r.schedule.kind = Schedule::one_cycle;
  r.schedule.by_step = r.schedule.cycle_momentum = true;
  r.schedule.total = 6;
  check(r);
}

TEST_CASE("unscaling, clipping and the loss scale are decided on the device") {
  SLUICE_NEEDS_GPU();
  OptimRule r;
  r.kind = OptimKind::adam;
  r.scaled = true;
  r.growth_interval = 2;
  check(r);
  r.max_norm = 0.5;
  check(r);
  r.kind = OptimKind::novograd;
  check(r);
}
