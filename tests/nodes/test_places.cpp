// Networks whose batches several devices share: here several places on the host, each with copies
// of its own as on another device.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "engine/state/tensor_device.h"
#include "kernels/net/places.h"
#include "tests/nearness.h"
#include "tests/nodes/golden_train.h"

using namespace sluice;

namespace {

std::shared_ptr<Network> make(const std::string& type, const Json& params, std::size_t places) {
  auto net = Registry::global().make_network(type, params);
  net->spread(std::vector<at::Device>(places, at::kCPU));
  net->initialise(7);
  return net;
}

Json unet(const std::string& norm, const std::string& precision = "float32") {
  return {{"spatial_dims", 2}, {"in_channels", 1},        {"out_channels", 2},
          {"strides", {2, 2}}, {"channels", {8, 16, 16}}, {"num_res_units", 1},
          {"norm", norm},      {"precision", precision}};
}
const Json segresnet{{"spatial_dims", 2},     {"init_filters", 8}, {"in_channels", 1},
                     {"blocks_down", {1, 1}}, {"blocks_up", {1}},  {"num_groups", 4},
                     {"dropout_prob", 0.25}};

struct Pass {
  at::Tensor y, to_input;
  std::vector<at::Tensor> grads;
};

Pass pass(Network& net, const at::Tensor& image) {
  net.train(true);
  net.key_draws(11);
  for (auto& [name, p] : net.parameters()) p.mutable_grad() = at::Tensor();
  at::Tensor x = image.detach().clone().requires_grad_();
  const at::Tensor y = net.forward(x);
  (y * sines(y.sizes(), 5).to(y.device())).sum().backward();
  Pass out{y.detach(), x.grad(), {}};
  for (auto& [name, p] : net.parameters()) out.grads.push_back(p.grad());
  return out;
}

at::Tensor seen(Network& net, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  return net.forward(x);
}

// Of all gradients together: that of a bias before a norm is rounding and no more.
double relative(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]).to(at::kDouble).square().sum().item<double>();
    size += b[i].to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(error / size);
}

at::Tensor images(std::int64_t n) { return sines({n, 1, 16, 16}, 1); }

// Past every version counter, as a kernel on a device writes.
void write(const at::Tensor& t, float value) {
  std::fill_n(static_cast<float*>(t.data_ptr()), t.numel(), value);
}

}  // namespace

TEST_CASE("a batch is cut for places as torch.chunk cuts it") {
  for (int places = 1; places < 6; ++places) {
    const Places p(std::vector<at::Device>(static_cast<std::size_t>(places), at::kCPU));
    for (std::int64_t n = 1; n < 14; ++n) {
      std::vector<std::int64_t> expected{0};
      for (const at::Tensor& part : at::arange(n).chunk(places))
        expected.push_back(expected.back() + part.size(0));
      CHECK(p.bounds(n) == expected);
    }
  }
  CHECK(Places({at::kCPU, at::kCPU, at::kCPU}).bounds(5) == std::vector<std::int64_t>{0, 2, 4, 5});
}

TEST_CASE("a batch that places share has the output and gradients that it has in one piece") {
  const std::pair<const char*, Json> networks[] = {
      {"unet", unet("INSTANCE")},
      {"segresnet", segresnet},
      {"lenet", {{"in_channels", 1}, {"out_channels", 3}, {"image_size", 16}}}};
  for (const auto& [type, params] : networks)
    for (const std::size_t places : {2, 3})
      for (const std::int64_t n : {1, 2, 5, 6}) {
        CAPTURE(type);
        CAPTURE(places);
        CAPTURE(n);
        const Pass one = pass(*make(type, params, 1), images(n));
        const Pass shared = pass(*make(type, params, places), images(n));
        CHECK(relative(shared.y, one.y) < 1e-6);
        CHECK(relative(shared.to_input, one.to_input) < 1e-5);
        CHECK(relative(shared.grads, one.grads) < 1e-5);
      }
}

TEST_CASE("places agree in half precision too, on the direct convolutions' packed weights") {
  const Pass one = pass(*make("unet", unet("INSTANCE", "bfloat16"), 1), images(5));
  const Pass shared = pass(*make("unet", unet("INSTANCE", "bfloat16"), 3), images(5));
  CHECK(relative(shared.y, one.y) < 1e-6);
  CHECK(relative(shared.grads, one.grads) < 1e-3);  // sums in another order, rounded between steps
}

TEST_CASE("passes that places share repeat bit for bit") {
  const auto net = make("unet", unet("INSTANCE"), 3);
  const Pass first = pass(*net, images(5));
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Pass again = pass(*net, images(5));
    CHECK(again.y.equal(first.y));
    CHECK(again.to_input.equal(first.to_input));
    for (std::size_t i = 0; i < first.grads.size(); ++i)
      CHECK(again.grads[i].equal(first.grads[i]));
  }
}

TEST_CASE("each place normalises by its own part, and running statistics follow the first") {
  const auto one = make("unet", unet("BATCH"), 1), shared = make("unet", unet("BATCH"), 3);
  const at::Tensor x = images(5);
  const Pass whole = pass(*shared, x);
  // Before the other parts: these too move the running statistics of a network on one device.
  std::vector<at::Tensor> running;
  std::vector<at::Tensor> sums, outputs;
  for (const auto& [begin, size] : {std::pair{0, 2}, {2, 2}, {4, 1}}) {
    one->train(true);
    for (auto& [name, p] : one->parameters()) p.mutable_grad() = at::Tensor();
    const at::Tensor y = one->forward(x.narrow(0, begin, size));
    (y * sines(whole.y.sizes(), 5).narrow(0, begin, size)).sum().backward();
    outputs.push_back(y.detach());
    for (std::size_t i = 0; i < one->parameters().size(); ++i)
      if (begin == 0)
        sums.push_back(one->parameters()[i].second.grad());
      else
        sums[i] = sums[i] + one->parameters()[i].second.grad();
    if (begin == 0)
      for (const auto& [name, b] : one->buffers()) running.push_back(b.clone());
  }
  CHECK(relative(whole.y, at::cat(outputs)) < 1e-6);
  CHECK(relative(whole.grads, sums) < 1e-5);
  for (std::size_t i = 0; i < running.size(); ++i)
    CHECK(at::allclose(shared->buffers()[i].second, running[i], 1e-6, 1e-7));
  CHECK_FALSE(relative(whole.y, pass(*make("unet", unet("BATCH"), 1), x).y) < 1e-2);
}

TEST_CASE("with running statistics places agree, those of the last training pass") {
  const auto one = make("unet", unet("BATCH"), 1), shared = make("unet", unet("BATCH"), 3);
  for (Network* net : {one.get(), shared.get()}) net->train(false);
  CHECK(relative(seen(*shared, images(6)), seen(*one, images(6))) < 1e-6);
  pass(*one, images(2));  // the first place's part of the next line
  pass(*shared, images(6));
  for (Network* net : {one.get(), shared.get()}) net->train(false);
  CHECK(relative(seen(*shared, images(6)), seen(*one, images(6))) < 1e-5);
}

TEST_CASE("a place reads its own copies of weights and statistics, forward and backward") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor x = images(6);
  const auto fine = [](const at::Tensor& t) { return t.isfinite().all().item<bool>(); };
  for (const char* norm : {"INSTANCE", "BATCH"}) {
    CAPTURE(norm);
    const auto count = make("unet", unet(norm), 3);
    const std::size_t parameters = count->parameters().size(), buffers = count->buffers().size();
    for (std::size_t i = 0; i < parameters + buffers; ++i) {
      const auto net = make("unet", unet(norm), 3);
      const auto [name, t] = i < parameters ? net->parameters()[i] : net->buffers()[i - parameters];
      CAPTURE(name);
      if (t.scalar_type() != at::kFloat || name.ends_with("conv.bias")) continue;
      net->train(false);
      const at::Tensor before = seen(*net, x);
      write(t.detach(), nan);  // from here on only the copies are good
      const at::Tensor after = seen(*net, x);
      // Convolutions read theirs, and batch norm its statistics, in a form that is made of them
      // once.
      const bool made_once = name.ends_with("conv.weight") || name.ends_with("residual.weight") ||
                             name.ends_with("running_mean") || name.ends_with("running_var");
      if (!made_once) CHECK_FALSE(fine(after.narrow(0, 0, 2)));
      CHECK(after.narrow(0, 2, 4).equal(before.narrow(0, 2, 4)));
      net->train(false);
      for (const std::int64_t first : {0, 4}) CHECK_FALSE(fine(seen(*net, x).narrow(0, first, 2)));
    }
    // Backward through weights that have changed since: those of other places have not.
    const auto net = make("unet", unet(norm), 3);
    const Pass good = pass(*net, x);
    at::Tensor input = x.clone().requires_grad_();
    const at::Tensor y = net->forward(input);
    for (auto& [name, p] : net->parameters()) write(p.detach(), nan);
    (y * sines(y.sizes(), 5)).sum().backward();
    CHECK_FALSE(fine(input.grad().narrow(0, 0, 2)));
    CHECK(relative(input.grad().narrow(0, 2, 4), good.to_input.narrow(0, 2, 4)) < 1e-5);
  }
}

TEST_CASE("every pass of training and every evaluation behind it sees the weights as they are") {
  const auto net = make("unet", unet("INSTANCE"), 3);
  const at::Tensor x = images(6);
  const auto alone = [&] {  // what one device makes of these weights
    const auto one = make("unet", unet("INSTANCE"), 1);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      one->parameters()[i].second.copy_(net->parameters()[i].second);
    one->train(false);
    return one->forward(x);
  };
  for (int step = 0; step < 3; ++step) {
    CHECK(relative(pass(*net, x).y, alone()) < 1e-6);
    for (auto& [name, p] : net->parameters())
      if (p.dim() > 1) write(p.detach(), 0.01f * static_cast<float>(step + 1));
    net->train(false);
    CHECK(relative(seen(*net, x), alone()) < 1e-6);
    CHECK(relative(seen(*net, x.narrow(0, 0, 2)), alone().narrow(0, 0, 2)) < 1e-6);
    CHECK(relative(seen(*net, x), alone()) < 1e-6);
    net->train(true);
    net->forward(x);  // a backward pass might follow, and an update
    for (auto& [name, p] : net->parameters())
      if (p.dim() > 1) write(p.detach(), 0.02f * static_cast<float>(step + 1));
    CHECK(relative(net->forward(x).detach(), alone()) < 1e-6);
    net->train(false);
    seen(*net, x);
    const at::NoGradGuard no_grad;
    for (auto& [name, p] : net->parameters()) p.mul_(1.5);  // nobody says so, but versions do
    CHECK(relative(seen(*net, x), alone()) < 1e-6);
  }
}

// SLUICE_DEVICE=gpu:2 takes one GPU as two.
TEST_CASE("stages on several GPUs give what they give on one, in every pass") {
  const auto device = find_device();
  const std::vector<at::Device> gpus = device ? device->places() : std::vector<at::Device>();
  if (gpus.size() < 2 || !gpus[0].is_cuda()) {
    MESSAGE("fewer than two GPUs here: nothing was run");
    return;
  }
  Json params = unet("BATCH");
  params["stages"] = 4;
  params["chunks"] = 3;
  for (const char* recompute : {"none", "stage"}) {
    CAPTURE(recompute);
    params["recompute"] = recompute;
    const at::Tensor x = images(6).to(gpus[0]);
    const auto one = make("unet", params, 1), several = make("unet", params, 1);
    several->spread(gpus);
    for (int repeat = 0; repeat < 5; ++repeat) {
      CAPTURE(repeat);
      const Pass expected = pass(*one, x), found = pass(*several, x);
      CHECK(relative(found.y, expected.y) < 1e-5);
      CHECK(relative(found.to_input, expected.to_input) < 1e-4);
      CHECK(relative(found.grads, expected.grads) < 1e-4);
      for (std::size_t i = 0; i < one->buffers().size(); ++i) {
        const at::Tensor &a = several->buffers()[i].second, &b = one->buffers()[i].second;
        CHECK(at::allclose(a, b, 1e-5, 1e-6));
      }
      for (Network* net : {one.get(), several.get()}) net->train(false);
      for (int again = 0; again < 2; ++again)
        CHECK(relative(seen(*several, x), seen(*one, x)) < 1e-5);
    }
  }
}

TEST_CASE("what one place throws reaches the caller when the others are done") {
  const Places places({at::kCPU, at::kCPU, at::kCPU});
  std::atomic<int> done{0};
  CHECK_THROWS_WITH(places.run(3,
                               [&](int place) {
                                 if (place == 1) throw std::runtime_error("of place 1");
                                 ++done;
                               }),
                    "of place 1");
  CHECK(done == 2);
}
