// How networks are written: values, operations of LibTorch, fusing, several inputs and outputs.
#include <doctest/doctest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>

#include "engine/base/error.h"
#include "kernels/net/blocks.h"
#include "kernels/net/constant.h"
#include "kernels/net/pass.h"
#include "kernels/optim/optim.h"

using namespace sluice;

namespace {

using Tensors = Net::Tensors;

// `build` on one image input.
Net made(std::int64_t channels, int axes, const std::function<Values(Scope, Value)>& build) {
  Builder b;
  const Value x = b.input(channels, axes);
  Net net = b.finish(build(b.scope(), x), {});
  net.initialise(1);
  return net;
}

std::string kinds(const Net& net) {
  std::string all;
  for (const auto& d : net.describe()) all += (all.empty() ? "" : " ") + d.kind;
  return all;
}

const at::Tensor& weight(const Net& net, const std::string& name) {
  for (const auto& p : net.parameters)
    if (p.name == name) return p.tensor;
  FAIL("no parameter " << name);
  return net.parameters[0].tensor;
}

at::Tensor image(std::int64_t n, std::int64_t channels) {
  at::manual_seed(3);
  return at::rand({n, channels, 6, 6}) - 0.5;
}

bool close(const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-4, 1e-6); }
// As a whole: single numbers of long sums may be small beside what was summed.
bool near(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>() < 1e-5;
}

// The gradients that `loss` of the network's outputs has, and those that LibTorch finds for the
// same formula.
void check_gradients(Net& net, const Tensors& x,
                     const std::function<at::Tensor(const Tensors&)>& formula,
                     bool (*equal)(const at::Tensor&, const at::Tensor&) = close) {
  Tensors leaves = x, grads;
  for (auto& t : leaves) t = t.detach().clone().requires_grad_();
  const at::Tensor y = net.forward(leaves, 1, true, 5)[0];
  (y * y).sum().backward();
  for (const auto& t : leaves) grads.push_back(t.grad());
  for (auto& p : net.parameters) {
    grads.push_back(p.tensor.grad());
    p.tensor.mutable_grad() = at::Tensor();
  }
  for (auto& t : leaves) t = t.detach().clone().requires_grad_();
  const at::Tensor z = formula(leaves);
  CHECK(equal(y, z));
  (z * z).sum().backward();
  for (std::size_t i = 0; i < leaves.size(); ++i) CHECK(equal(grads[i], leaves[i].grad()));
  for (std::size_t i = 0; i < net.parameters.size(); ++i) {
    CAPTURE(net.parameters[i].name);
    const at::Tensor &mine = grads[leaves.size() + i], &wanted = net.parameters[i].tensor.grad();
    CHECK(mine.defined() == wanted.defined());
    if (wanted.defined()) CHECK(equal(mine, wanted));
    net.parameters[i].tensor.mutable_grad() = at::Tensor();
  }
}

}  // namespace

TEST_CASE("what reads a value before a sum does is not overtaken by fusing") {
  // As in a dense or U-Net++ graph: the convolution's value is read by ReLU, then added to it.
  Net net = made(2, 2, [](Scope s, Value x) {
    const Value c = conv(s / "a", x, 2, {});
    const Value r = relu(c);
    return Values{c + conv(s / "b", r, 2, {})};
  });
  CHECK(kinds(net) == "conv relu conv add");
  const auto formula = [&](const Tensors& t) {
    const at::Tensor c = at::conv2d(t[0], weight(net, "a.weight"), weight(net, "a.bias"), 1, 1);
    return c + at::conv2d(at::relu(c), weight(net, "b.weight"), weight(net, "b.bias"), 1, 1);
  };
  check_gradients(net, {image(3, 2)}, formula);
}

TEST_CASE("norm, activation and residual become one step where each is read once") {
  const auto block = [](Scope s, Value x, bool read_twice) {
    Value n = norm(s / "n", conv(s / "c", x, 2, {.normed = true}));
    Value y = relu(n) + x;
    return Values{read_twice ? y + n : y};
  };
  CHECK(kinds(made(2, 2, [&](Scope s, Value x) { return block(s, x, false); })) ==
        "conv batch_norm");
  CHECK(kinds(made(2, 2, [&](Scope s, Value x) { return block(s, x, true); })) ==
        "conv batch_norm relu add add");
  // A bias that a norm takes away again stays where something else reads the convolution.
  const Net net = made(2, 2, [&](Scope s, Value x) {
    const Value c = conv(s / "c", x, 2, {.normed = true});
    return Values{norm(s / "n", c) + relu(c)};
  });
  CHECK(net.describe()[0].text().ends_with("bias yes"));
}

TEST_CASE("the list's end says the layout: no network does") {
  const Net images = made(2, 2, [](Scope s, Value x) { return Values{norm(s / "n", x)}; });
  CHECK(images.channels_last);
  const Net flat =
      made(2, 2, [](Scope s, Value x) { return Values{linear(s / "l", flatten(x, 36), 3)}; });
  CHECK_FALSE(flat.channels_last);
}

TEST_CASE("any operation of LibTorch has LibTorch's gradients, parameters' too, cut into frames") {
  Net net = made(2, 2, [](Scope s, Value x) {
    const int scale = s.parameter("scale", {1, 4, 1, 1}, Init::normal(1));
    const Value y = gelu(conv(s / "c", x, 4, {}));
    const Value z = y.op("scaled", [](In t) { return at::tanh(t[0]) * t[2] + t[1]; },
                         {.with = {y}, .parameters = {scale}});
    return Values{conv(s / "d", z, 2, {})};
  });
  const auto formula = [&](const Tensors& t) {
    const at::Tensor y =
        at::gelu(at::conv2d(t[0], weight(net, "c.weight"), weight(net, "c.bias"), 1, 1));
    const at::Tensor z = at::tanh(y) * weight(net, "scale") + y;
    return at::conv2d(z, weight(net, "d.weight"), weight(net, "d.bias"), 1, 1);
  };
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    at::set_num_threads(threads);
    check_gradients(net, {image(5, 2)}, formula);
  }
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  CHECK(close(net.forward({image(5, 2)}, 1, false, 0)[0], formula({image(5, 2)})));
}

TEST_CASE("only the gradients that somebody needs are computed, and they are the same") {
  Net net = made(2, 2, [](Scope s, Value x) {
    const int scale = s.parameter("scale", {1, 8, 1, 1}, Init::normal(1));
    Value y = norm(s / "n", conv(s / "c", x, 8, {.normed = true}), {.kind = Norm::batch});
    y = prelu(s / "a", y)
            .op("scaled", [](In t) { return at::tanh(t[0]) * t[1]; }, {.parameters = {scale}});
    return Values{linear(s / "l", global_avg_pool(conv(s / "d", y, 3, {})), 2)};
  });
  const at::Tensor x = image(5, 2).requires_grad_();
  Tensors weights;
  for (const auto& p : net.parameters) weights.push_back(p.tensor);
  std::atomic<std::size_t> computed = 0;  // of the weights' gradients
  const auto gradients = [&](const Tensors& needed) {
    computed = 0;
    const at::Tensor y = net.forward({x}, 1, true, 5)[0];
    const ReadyScope scope(
        [&](const at::Tensor&, const at::Tensor& gradient) { computed += gradient.defined(); });
    return torch::autograd::grad({(y * y).sum()}, needed);
  };
  Tensors everything = weights;
  everything.push_back(x);
  const auto all = gradients(everything);
  CHECK(computed == weights.size());
  const auto of_weights = gradients(weights);
  for (std::size_t i = 0; i < weights.size(); ++i) CHECK(at::equal(of_weights[i], all[i]));
  CHECK(at::equal(gradients({x})[0], all.back()));  // for a network before this one
  CHECK(computed == 0);
  for (at::Tensor& weight : weights) weight.requires_grad_(false);
  CHECK(at::equal(gradients({x})[0], all.back()));
  CHECK(computed == 0);
}

TEST_CASE("a backward pass through weights that a step has changed since is refused") {
  Net net = made(1, 2, [](Scope s, Value x) { return Values{conv(s / "c", x, 2, {})}; });
  const at::Tensor x = image(2, 1).requires_grad_();
  const at::Tensor before = net.forward({x}, 1, true, 5)[0];
  Slot slot;
  slot.weight = weight(net, "c.weight").detach();
  slot.lr = 0.1;
  std::vector<Slot> slots{slot};
  OptimMemory memory;
  memory.write({});
  optim_step(slots, {}, memory);  // no gradient: it changes nothing
  const at::Tensor same = net.forward({x}, 1, true, 5)[0];
  slots[0].grad = at::ones_like(slot.weight);
  same.sum().backward();
  optim_step(slots, {}, memory);
  CHECK_THROWS_WITH_AS(before.sum().backward(), doctest::Contains("(c.weight for one)"), Error);
  net.forward({x}, 1, true, 5)[0].sum().backward();
}

TEST_CASE("operations of LibTorch work on several places, each with copies of its own") {
  const auto build = [](Scope s, Value x) {
    return Values{conv(s / "d", silu(conv(s / "c", x, 4, {})), 2, {}),
                  silu(conv(s / "e", x, 2, {}))};
  };
  Net one = made(2, 2, build), shared = made(2, 2, build);
  shared.spread(std::vector<at::Device>(3, at::kCPU));
  for (Net* net : {&one, &shared}) {
    const Tensors y = net->forward({image(5, 2)}, 2, true, 0);
    y[0].square().sum().backward();  // not of the second: "e" has no gradient
  }
  for (std::size_t i = 0; i < one.parameters.size(); ++i) {
    CAPTURE(one.parameters[i].name);
    const at::Tensor &a = one.parameters[i].tensor.grad(), &b = shared.parameters[i].tensor.grad();
    CHECK(a.defined() == b.defined());
    CHECK(a.defined() == !one.parameters[i].name.starts_with("e."));
    if (a.defined()) CHECK(close(a, b));
  }
}

TEST_CASE("predictions follow the weights, whoever changes them and however") {
  Net net = made(3, 2, [](Scope s, Value x) { return Values{conv(s / "c", x, 4, {})}; });
  const at::Tensor x = image(2, 3), w = weight(net, "c.weight").detach();
  const auto holds = [&] {
    const c10::NoGradGuard no_grad;
    return close(net.forward({x}, 1, false, 0)[0],
                 at::conv2d(x, w, weight(net, "c.bias").detach(), 1, 1));
  };
  CHECK(holds());
  CHECK(holds());
  w.mul_(2);
  CHECK(holds());
  w.mutable_data_ptr<float>()[0] += 1;  // as kernels do, which tell nobody
  net.forget_copies();
  CHECK(holds());
  net.forward({x}, 1, true, 0)[0].sum().backward();
  w.mutable_data_ptr<float>()[1] += 1;
  CHECK(holds());
}

TEST_CASE("predictions in bfloat16 follow a matrix that is kept as it is multiplied") {
  Net net = made(30, 0, [](Scope s, Value x) { return Values{linear(s / "l", x, 4)}; });
  net.compute = at::kBFloat16;
  at::manual_seed(3);
  const at::Tensor x = at::rand({2, 30}), w = weight(net, "l.weight").detach();
  for (const int factor : {1, 8, 8}) {
    w.mul_(factor);
    const c10::NoGradGuard no_grad;
    const at::Tensor mine = net.forward({x}, 1, false, 0)[0],
                     whole = at::linear(x, w, weight(net, "l.bias"));
    CHECK(((mine - whole).norm() / whole.norm()).item<double>() < 1e-2);
  }
}

TEST_CASE("a network takes several inputs and gives several outputs") {
  Builder b;
  const Value moving = b.input(1, 2), fixed = b.input(3, 2);
  const Scope s = b.scope();
  const Value both = concat({moving, fixed});
  CHECK(both.channels == 4);
  const Value field = conv(s / "f", both, 2, {});
  Net net = b.finish({field, conv(s / "g", field, 1, {})}, {});
  net.initialise(1);
  const Tensors y = net.forward({image(4, 1), image(4, 3)}, 2, true, 0);
  CHECK(y[0].sizes() == at::IntArrayRef({4, 2, 6, 6}));
  CHECK(y[1].sizes() == at::IntArrayRef({4, 1, 6, 6}));
  check_gradients(net, {image(4, 1), image(4, 3)}, [&](const Tensors& t) {
    return at::conv2d(at::cat({t[0], t[1]}, 1), weight(net, "f.weight"), weight(net, "f.bias"), 1,
                      1);
  });
}

TEST_CASE("a convolution of few positions and many weights has LibTorch's gradients") {
  Net net = made(64, 2, [](Scope s, Value x) {
    const Value y = conv(s / "c", x, 512, {.stride = 2, .bias = false});  // by matrices
    return Values{conv(s / "d", norm(s / "n", y, {.kind = Norm::batch}), 64, {.kernel = 1}) +
                  conv(s / "e", x, 64, {.stride = 2})};
  });
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    check_gradients(
        net, {image(3, 64)},
        [&](const Tensors& t) {
          const auto part = [&](const std::string& name, const at::Tensor& x, int stride,
                                int padding) {
            return at::conv2d(x, weight(net, name + ".weight"), weight(net, name + ".bias"), stride,
                              padding);
          };
          const at::Tensor y = at::batch_norm(at::conv2d(t[0], weight(net, "c.weight"), {}, 2, 1),
                                              weight(net, "n.weight"), weight(net, "n.bias"), {},
                                              {}, true, 0.1, 1e-5, false);
          return part("d", y, 1, 0) + part("e", t[0], 2, 1);
        },
        near);
  }
  at::set_num_threads(1);
}

TEST_CASE(
    "a convolution of few positions and many weights computes in bfloat16, and outputs float32") {
  Net net = made(64, 2, [](Scope s, Value x) {
    const Value y = conv(s / "c", x, 512, {.stride = 2});  // by matrices, as the next two
    return Values{conv(s / "d", y, 256, {.kernel = 1}) + conv(s / "e", x, 256, {.stride = 2})};
  });
  const auto run = [&](at::ScalarType type) {
    net.compute = type;
    const at::Tensor x = image(2, 64).requires_grad_();
    const at::Tensor y = net.forward({x}, 1, true, 5)[0];
    (y * y).sum().backward();
    Tensors all{y.detach(), x.grad()};
    for (auto& p : net.parameters) {
      all.push_back(p.tensor.grad());
      p.tensor.mutable_grad() = at::Tensor();
    }
    return all;
  };
  const Tensors wide = run(at::kFloat), mine = run(at::kBFloat16);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    CAPTURE(i);
    CHECK(mine[i].dtype() == at::kFloat);
    const double error = ((mine[i] - wide[i]).norm() / wide[i].norm()).item<double>();
    CHECK((error > 1e-4 && error < 1e-2));
  }
  // The output is not rounded.
  CHECK_FALSE(at::equal(mine[0], mine[0].to(at::kBFloat16).to(at::kFloat)));
}

TEST_CASE("a window that is larger than the image with its borders is refused, as LibTorch does") {
  const auto of = [](std::int64_t extent, const std::function<Value(Scope, Value)>& layer) {
    Net net = made(1, 2, [&](Scope s, Value x) { return Values{layer(s, x)}; });
    net.forward({at::rand({1, 1, extent, extent})}, 1, false, 0);
  };
  const auto with = [](const ConvOptions& o) {
    return [o](Scope s, Value x) { return conv(s / "c", x, 4, o); };
  };
  const auto pool = [](Scope, Value x) { return max_pool(x, {.kernel = 5, .stride = 3}); };
  CHECK_THROWS_WITH_AS(of(3, with({.kernel = 5, .stride = 3, .padding = 0})),
                       "conv c of input 0: a window of [5, 5] is larger than what is there, [3, 3]",
                       DataError);
  CHECK_THROWS_WITH_AS(of(2, with({.kernel = 3, .stride = 4, .padding = 1, .dilation = 2})),
                       "conv c of input 0: a window of [5, 5] is larger than what is there, [4, 4]",
                       DataError);
  CHECK_THROWS_WITH_AS(
      of(3, pool), "max_pool of input 0: a window of [5, 5] is larger than what is there, [3, 3]",
      DataError);
  CHECK_NOTHROW(of(3, with({.kernel = 5, .stride = 3})));
  CHECK_NOTHROW(of(5, pool));
}

TEST_CASE("a convolution is refused where groups do not divide its channels, and of vectors") {
  const auto grouped = [](std::int64_t in, std::int64_t out, std::int64_t groups) {
    for (const int axes : {1, 2})
      made(in, axes,
           [&](Scope s, Value x) { return Values{conv(s / "c", x, out, {.groups = groups})}; });
  };
  CHECK_THROWS_WITH_AS(grouped(8, 9, 3),
                       "c: the groups of a convolution divide its channels: 3 of 8 and 9", Error);
  CHECK_THROWS_WITH_AS(grouped(9, 8, 3),
                       "c: the groups of a convolution divide its channels: 3 of 9 and 8", Error);
  CHECK_NOTHROW(grouped(9, 6, 3));
  CHECK_THROWS_WITH_AS(
      made(4, 2, [](Scope s, Value x) { return Values{conv(s / "c", global_avg_pool(x), 4)}; }),
      "c: a convolution takes an image, not vectors or tokens", Error);
}

TEST_CASE("a mean over windows counts the zeros around an image, as LibTorch's") {
  Net net = made(3, 2, [](Scope, Value x) {
    return Values{avg_pool(x, {.kernel = {3, 2}, .stride = 2, .padding = {1, 0}})};
  });
  check_gradients(net, {image(2, 3)}, [](const Tensors& t) {
    return at::avg_pool2d(t[0], {3, 2}, {2, 2}, {1, 0});
  });
  Net signal = made(3, 1, [](Scope, Value x) {
    return Values{avg_pool(x, {.kernel = 3, .stride = 2, .padding = 1})};
  });
  check_gradients(signal, {image(2, 3).flatten(2)},
                  [](const Tensors& t) { return at::avg_pool1d(t[0], {3}, {2}, {1}); });
}

TEST_CASE("a constant has one copy of each type and device, and is itself where it fits") {
  const at::Tensor numbers = at::arange(4, at::kDouble);
  const NetConstant constant(numbers), again = constant;
  CHECK(constant.on(at::kCPU).is_same(numbers));
  const at::Tensor halves = constant.like(at::dtype(at::kBFloat16).device(at::kCPU));
  CHECK(halves.equal(numbers.to(at::kBFloat16)));
  CHECK(again.like(halves.options()).is_same(halves));
  CHECK(constant.like(at::dtype(at::kFloat).device(at::kCPU)).equal(numbers.to(at::kFloat)));
  CHECK(constant.on(at::kMeta).is_same(constant.on(at::kMeta)));
}

TEST_CASE("threads' sums of a gradient do not go into the one that the network was given") {
  at::set_num_threads(2);
  Net net = made(1, 2, [](Scope s, Value x) {
    const int places = s.parameter("places", {1, 1, 6, 6}, Init::fill(0));
    return Values{x.op("add", [](In t) { return t[0] + t[1]; }, {.parameters = {places}})};
  });
  const at::Tensor beside = at::zeros({2, 1, 6, 6}).requires_grad_(), slope = image(2, 1);
  const at::Tensor before = beside * 1, y = net.forward({image(2, 1)}, 1, true, 0)[0];
  ((y + before) * slope).sum().backward();  // the sum hands one gradient to both
  CHECK(beside.grad().equal(slope));
  CHECK(close(weight(net, "places").grad(), slope.sum(0, true)));
  at::set_num_threads(1);
}

TEST_CASE("samples that do little with many weights are computed together") {
  at::set_num_threads(2);
  const auto frames = [](std::int64_t out) {
    Net net =
        made(2, 2, [&](Scope s, Value x) { return Values{linear(s / "l", flatten(x, 36), out)}; });
    net.forward({image(2, 2).requires_grad_()}, 1, true, 0);
    return Pass::frames(net);
  };
  CHECK(frames(1 << 16) == 1);  // 18 MiB of weights
  CHECK(frames(1 << 10) == 2);
  at::set_num_threads(1);
}
