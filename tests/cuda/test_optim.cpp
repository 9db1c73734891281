// The optimizers' steps on the device against the same updates written out in double.
#include <cmath>
#include <limits>
#include <memory>

#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

// Three tensors: one of several chunks, one that ends within a chunk, one of one number.
const std::vector<std::size_t> sizes{40000, 777, 1};

struct Network {
  std::vector<std::unique_ptr<Both<float>>> weight, grad, first, second, largest;
  std::vector<std::unique_ptr<Both<Brain>>> copy;
  std::vector<OptimTensor> tensors;

  explicit Network(const OptimRule& r) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t n = sizes[i], moments = r.kind == OptimKind::novograd ? 1 : n;
      weight.push_back(std::make_unique<Both<float>>(test::numbers(n, 10 + i)));
      grad.push_back(std::make_unique<Both<float>>(std::vector<float>(n)));
      first.push_back(std::make_unique<Both<float>>(std::vector<float>(n)));
      second.push_back(std::make_unique<Both<float>>(std::vector<float>(moments)));
      largest.push_back(std::make_unique<Both<float>>(std::vector<float>(moments)));
      copy.push_back(std::make_unique<Both<Brain>>(std::vector<Brain>(n)));
      OptimTensor t;
      t.weight = weight[i]->device();
      t.grad = grad[i]->device();
      if (r.kind != OptimKind::sgd || r.momentum != 0) t.first = first[i]->device();
      if (r.kind != OptimKind::sgd) t.second = second[i]->device();
      if (r.amsgrad) t.largest = largest[i]->device();
      t.copy = copy[i]->device();
      t.size = static_cast<std::int64_t>(n);
      tensors.push_back(t);
    }
  }
};

// The same network in double, one weight after the other.
struct Reference {
  std::vector<std::vector<double>> w, m, v, top;
  double scale;
  int step = 0, good = 0;

  Reference(const Network& n, double scale_) : scale(scale_) {
    for (const auto& t : n.weight) {
      w.emplace_back(t->host.begin(), t->host.end());
      for (auto* s : {&m, &v, &top}) s->emplace_back(t->host.size(), 0.0);
    }
  }
  void apply(const OptimRule& r, const std::vector<std::vector<float>>& grads) {
    const double unscale = r.scaled ? 1 / scale : 1;
    double squares = 0;
    for (const auto& g : grads)
      for (double x : g) squares += x * x;
    const double norm = std::sqrt(squares) * unscale;
    if (!std::isfinite(norm)) {
      good = 0;
      if (r.scaled) scale *= r.backoff;
      return;
    }
    const double clip = r.max_norm > 0 && norm > r.max_norm ? r.max_norm / (norm + 1e-6) : 1;
    ++step;
    for (std::size_t t = 0; t < w.size(); ++t) {
      double of_tensor = 0;
      for (double x : grads[t]) of_tensor += x * x * unscale * unscale * clip * clip;
      if (r.kind == OptimKind::novograd) {
        double& s = v[t][0];
        s = s == 0 ? of_tensor : r.beta2 * s + (1 - r.beta2) * of_tensor;
        top[t][0] = std::max(top[t][0], s);
        of_tensor = std::sqrt(r.amsgrad ? top[t][0] : s) + r.eps;
      }
      for (std::size_t i = 0; i < w[t].size(); ++i)
        one(r, grads[t][i] * unscale * clip, of_tensor, t, i);
    }
    if (r.scaled && ++good == r.growth_interval) good = 0, scale *= r.growth;
  }
  void one(const OptimRule& r, double g, double root, std::size_t t, std::size_t i) {
    double &x = w[t][i], &first = m[t][i], &second = v[t][i];
    if (r.kind == OptimKind::sgd) {
      g += r.weight_decay * x;
      first = r.momentum * first + g;
      x -= r.lr * (r.nesterov ? g + r.momentum * first : first);
    } else if (r.kind == OptimKind::novograd) {
      g = (g / root + r.weight_decay * x) * (r.grad_averaging ? 1 - r.beta1 : 1);
      first = r.beta1 * first + g;
      x -= r.lr * first;
    } else {
      if (r.decoupled)
        x *= 1 - r.lr * r.weight_decay;
      else
        g += r.weight_decay * x;
      first = r.beta1 * first + (1 - r.beta1) * g;
      second = r.beta2 * second + (1 - r.beta2) * g * g;
      top[t][i] = std::max(top[t][i], second);
      const double s = r.amsgrad ? top[t][i] : second;
      x -= r.lr / (1 - std::pow(r.beta1, step)) * first /
           (std::sqrt(s) / std::sqrt(1 - std::pow(r.beta2, step)) + r.eps);
    }
  }
};

void check(const OptimRule& r) {
  Network net(r);
  const auto n = static_cast<int>(net.tensors.size());
  OptimState begin;
  begin.scale = 1024;
  const Both<OptimState> state({begin});
  const Both<char> plan(std::vector<char>(test::cuda().optim_bytes(net.tensors.data(), n), '\x5a'));
  test::ok(test::cuda().optim_plan(net.tensors.data(), n, plan.device(), nullptr));
  Reference ref(net, begin.scale);
  for (int step = 0; step < 5; ++step) {
    const bool broken = step == 2;  // one gradient of one weight is infinite
    std::vector<std::vector<float>> grads;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      const float size = r.scaled ? 1024.0f : 1.0f;
      grads.push_back(test::numbers(sizes[t], 100 * step + t, -size, size));
      if (broken && t == 0) grads[t][12345] = std::numeric_limits<float>::infinity();
      test::ok(test::cuda().copy(net.grad[t]->device(), grads[t].data(),
                                 grads[t].size() * sizeof(float), nullptr));
    }
    test::ok(
        test::cuda().optim_step(net.tensors.data(), n, plan.device(), r, state.device(), nullptr));
    ref.apply(r, grads);
    const OptimState now = state.read()[0];
    CHECK((now.skip != 0) == broken);
    CHECK(now.step == ref.step);
    if (r.scaled) CHECK(now.scale == ref.scale);
  }
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const auto got = net.weight[t]->read();
    const auto copy = net.copy[t]->read();
    double worst = 0, copied = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::abs(got[i] - ref.w[t][i]));
      Brain expected;
      from_float(got[i], expected);
      copied += copy[i].bits != expected.bits;
    }
    CHECK(worst < 3e-6);
    CHECK(copied == 0);
  }
}

}  // namespace

TEST_CASE("every optimizer's steps on the device, with an infinite gradient among them") {
  SLUICE_NEEDS_GPU();
  OptimRule sgd;
  sgd.lr = 0.1;
  sgd.weight_decay = 0.01;
  for (const bool nesterov : {false, true})
    for (const double momentum : {0.0, 0.9}) {
      sgd.nesterov = nesterov && momentum != 0;
      sgd.momentum = momentum;
      check(sgd);
    }
  OptimRule adam;
  adam.kind = OptimKind::adam;
  adam.lr = 0.01;
  adam.weight_decay = 0.1;
  for (const bool decoupled : {false, true})
    for (const bool amsgrad : {false, true}) {
      adam.decoupled = decoupled;
      adam.amsgrad = amsgrad;
      check(adam);
    }
  OptimRule novograd;
  novograd.kind = OptimKind::novograd;
  novograd.lr = 0.01;
  novograd.weight_decay = 0.001;
  novograd.beta2 = 0.98;
  check(novograd);
  novograd.grad_averaging = novograd.amsgrad = true;
  check(novograd);
}

TEST_CASE("unscaling, clipping and the loss scale are decided on the device") {
  SLUICE_NEEDS_GPU();
  OptimRule r;
  r.kind = OptimKind::adam;
  r.lr = 0.01;
  r.scaled = true;
  r.growth_interval = 2;
  check(r);
  r.max_norm = 0.5;
  check(r);
  r.kind = OptimKind::novograd;
  check(r);
}
