// What the U-Net promises; MONAI's numbers for it are with test_networks.cpp.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include "engine/state/resource.h"
#include "tests/nearness.h"
#include "tests/nodes/drive.h"
#include "tests/nodes/golden_train.h"

using namespace sluice;

namespace {

std::shared_ptr<Network> make_unet(Json params) {
  return Registry::global().make_network("unet", params);
}

Json hippocampus(const std::string& precision = "float32", bool channels_last = true) {
  return {{"spatial_dims", 3},      {"in_channels", 1},
          {"out_channels", 3},      {"channels", {16, 32, 64}},
          {"strides", {2, 2}},      {"num_res_units", 1},
          {"precision", precision}, {"channels_last", channels_last}};
}

// Forward and backward of sum(y * sines); returns y, gradients follow in parameters().
at::Tensor output_of(Network& net, const at::Tensor& x) {
  net.train(true);
  for (auto& [name, p] : net.parameters()) p.mutable_grad() = at::Tensor();
  at::Tensor y = net.forward(x);
  (y * sines(y.sizes(), 5)).sum().backward();
  return y.detach();
}

}  // namespace

TEST_CASE("unet's initial weights follow from the seed alone and keep PyTorch's bounds") {
  const auto a = make_unet(hippocampus()), b = make_unet(hippocampus()),
             c = make_unet(hippocampus());
  a->initialise(1);
  b->initialise(1);
  c->initialise(2);
  const auto weights = a->parameters();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto& [name, t] = weights[i];
    CAPTURE(name);
    CHECK(t.equal(b->parameters()[i].second));
    if (name.ends_with("A.weight")) {
      CHECK(t.item<float>() == 0.25f);
      continue;
    }
    CHECK(!t.equal(c->parameters()[i].second));
    if (t.dim() == 1) continue;
    const double bound = 1 / std::sqrt(static_cast<double>(t.numel() / t.size(0)));
    CHECK(t.abs().max().item<double>() <= bound);
    CHECK(t.abs().max().item<double>() > 0.9 * bound);
    CHECK(std::abs(t.mean().item<double>()) < 0.15 * bound);
  }
}

TEST_CASE("half precision gradients stray from float32 by no more than autocast's do") {
  for (const char* precision : {"bfloat16", "float16"}) {
    CAPTURE(precision);
    const double finer = std::string(precision) == "float16" ? 4 : 1;  // it has three more bits
    const auto full = make_unet(hippocampus()), half = make_unet(hippocampus(precision));
    CHECK(half->computes_in_half() == (finer > 1));
    full->initialise(3);
    half->initialise(3);
    const at::Tensor x = sines({2, 1, 16, 16, 16}, 1);
    const at::Tensor y = output_of(*full, x), z = output_of(*half, x);
    CHECK(relative(z, y) < 0.02 / finer);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < full->parameters().size(); ++i) {
      const auto a = full->parameters()[i].second.grad(), b = half->parameters()[i].second.grad();
      error += (a - b).pow(2).sum().item<double>();
      size += a.pow(2).sum().item<double>();
    }
    CHECK(std::sqrt(error / size) < 0.035 / finer);
  }
}

TEST_CASE("a small loss loses its float16 gradients unless it is scaled") {
  const auto full = make_unet(hippocampus()), half = make_unet(hippocampus("float16"));
  const at::Tensor x = sines({2, 1, 16, 16, 16}, 1);
  const auto error = [&](double scale) {
    at::Tensor grads[2];
    for (Network* net : {full.get(), half.get()}) {
      net->initialise(3);
      for (auto& [name, p] : net->parameters()) p.mutable_grad() = at::Tensor();
      const at::Tensor y = net->forward(x);
      ((y * sines(y.sizes(), 5)).mean() * 1e-4 * scale).backward();
      grads[net == half.get()] = net->parameters().front().second.grad() / scale;
    }
    return relative(grads[1], grads[0]);
  };
  CHECK(error(1) > 0.2);
  CHECK(error(65536) < 0.01);
}

TEST_CASE("a output_of repeats bit for bit for any number of step threads") {
  for (const char* precision : {"float32", "bfloat16"}) {
    const auto net = make_unet(hippocampus(precision));
    net->initialise(3);
    const at::Tensor x = sines({5, 1, 16, 16, 16}, 1);
    for (int threads : {1, 2, 3}) {
      CAPTURE(threads);
      at::set_num_threads(threads);
      const at::Tensor y = output_of(*net, x);
      std::vector<at::Tensor> grads;
      for (const auto& [name, p] : net->parameters()) grads.push_back(p.grad());
      for (int repeat = 0; repeat < 3; ++repeat) {
        CHECK(output_of(*net, x).equal(y));
        for (std::size_t i = 0; i < grads.size(); ++i)
          CHECK(net->parameters()[i].second.grad().equal(grads[i]));
      }
    }
    at::set_num_threads(1);
  }
}

TEST_CASE("dropout draws by key and leaves evaluation alone") {
  Json params = hippocampus();
  params["dropout"] = 0.3;
  const auto net = make_unet(params);
  net->initialise(1);
  at::NoGradGuard no_grad;
  const at::Tensor x = sines({4, 1, 16, 16, 16}, 1);
  auto run = [&](bool train, std::uint64_t key) {
    net->train(train);
    net->key_draws(key);
    return net->forward(x);
  };
  CHECK(run(true, 1).equal(run(true, 1)));
  CHECK(!run(true, 1).equal(run(true, 2)));
  CHECK(run(false, 1).equal(run(false, 2)));
}

TEST_CASE("unet refuses what it cannot be, and a wrong input, in words") {
  Json params = hippocampus();
  params["strides"] = {2};
  CHECK_THROWS_WITH(make_unet(params),
                    "unet: strides needs one entry fewer than channels (2), found 1");
  const auto net = make_unet(hippocampus());
  CHECK_THROWS_WITH(net->forward(at::zeros({2, 2, 8, 8, 8})),
                    "unet takes [N, 1] and 3 spatial axes, got 3 axes and 2 channels");
}

TEST_CASE("the model node records gradients in a training stream only") {
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net", make_unet(hippocampus()));
  context.resources->network("net")->initialise(1);
  for (const bool training : {true, false}) {
    context.training = training;
    Driver node("model", {{"net", "net"}}, context);
    const auto out = node.fire({sample_of("image", sines({2, 1, 8, 8, 8}))}).samples();
    REQUIRE(out.size() == 1);
    CHECK(out[0].tensor("pred").requires_grad() == training);
    CHECK(out[0].tensor("pred").sizes() == at::IntArrayRef({2, 3, 8, 8, 8}));
    CHECK(out[0].has("image"));
  }
}

TEST_CASE("a network's arithmetic is counted, and what tensor cores can do of it") {
  Json params = {{"spatial_dims", 2},   {"in_channels", 1}, {"out_channels", 2},
                 {"channels", {8, 16}}, {"strides", {2}},   {"precision", "float16"}};
  const auto net = make_unet(params);
  net->initialise(1);
  CHECK(net->last_work().multiply_adds == 0);
  net->forward(sines({2, 1, 16, 16}, 1));
  // Of one sample, 3 x 3 kernels: 1 -> 8 to 8^2 voxels, 8 -> 16 on them, and 24 -> 2 from them up
  // to 16^2.
  const double first = 9 * 1 * 8 * 64, second = 9 * 8 * 16 * 64, up = 9 * 24 * 2 * 64;
  CHECK(net->last_work().multiply_adds == first + second + up);
  CHECK(net->last_work().on_tensor_cores == second);
}
