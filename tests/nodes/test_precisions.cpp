// Every network with golden values computes in 16 bits too, near to what it answers in float32.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "tests/nearness.h"
#include "tests/nodes/filled.h"

using namespace sluice;

namespace {

struct Answer {
  at::Tensor y, input_grad;
  std::vector<at::Tensor> weight_grads;  // flat
};

at::ScalarType type_of(const std::string& precision) {
  return precision == "bfloat16" ? at::kBFloat16 : at::kHalf;
}

// In `precision`; where `rounded_to` is another, in numbers that are rounded to that first.
Answer answer(const std::string& type, Json params, const Json& c, const std::string& precision,
              const std::string& rounded_to = "float32") {
  const auto rounded = [&](const at::Tensor& t) {
    return rounded_to == "float32" ? t : t.to(type_of(rounded_to)).to(at::kFloat);
  };
  params["precision"] = precision;
  const auto net = Registry::global().make_network(type, params);
  net->initialise(3);
  net->train(true);  // untrained statistics let small values vanish
  net->key_draws(1);
  for (auto& [name, p] : net->parameters()) p.detach().copy_(rounded(p.detach()));
  const auto waves = [&](const std::vector<std::int64_t>& size) {
    const at::Tensor k = at::arange(c10::multiply_integers(size));
    return rounded(at::sin(k * 0.37)).reshape(size).requires_grad_();
  };
  Network::Tensors inputs{waves(c["size"])};
  for (const auto& size : further_sizes(c)) {
    const auto numbers = further_numbers(c, inputs.size() - 1, size);
    inputs.push_back(numbers ? *numbers : waves(size));
  }
  const at::Tensor y = net->forward(inputs, 1)[0];
  y.square().mean().backward();
  Answer a{y.detach(), inputs[0].grad(), {}};
  for (auto& [name, p] : net->parameters())
    if (p.grad().defined()) a.weight_grads.push_back(p.grad().flatten());
  return a;
}

}  // namespace

TEST_CASE("every network computes in bfloat16, forward and backward") {
  int tried = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/tests/golden/nets")) {
    std::ifstream in(file.path());
    const Json all = Json::parse(in);
    const Json& c = all["cases"][0];
    if (!c.contains("size")) continue;  // names alone, without golden values
    CAPTURE(all["type"].dump());
    CAPTURE(c["params"].dump());
    const Answer exact = answer(all["type"], c["params"], c, "float32");
    // What rounding its weights and input alone changes: deep ones amplify it, and each layer
    // rounds again.
    const Answer rounded = answer(all["type"], c["params"], c, "float32", "bfloat16");
    const Answer mine = answer(all["type"], c["params"], c, "bfloat16");
    CHECK(relative(mine.y, exact.y) < 0.02 + 8 * relative(rounded.y, exact.y));
    CHECK(mine.input_grad.isfinite().all().item<bool>());
    ++tried;
  }
  CHECK(tried >= 20);
}

TEST_CASE("3-D networks that pool averages compute in 16 bits") {
  const Json c{{"size", {2, 1, 32, 32, 32}}};
  const Json params{{"spatial_dims", 3},
                    {"in_channels", 1},
                    {"out_channels", 2},
                    {"init_features", 8},
                    {"growth_rate", 4},
                    // In all its layers rounding the weights alone to 16 bits changes 0.4 of the
                    // answer: norms of two voxels are signs.
                    {"block_config", {2, 2, 2}}};
  const Answer exact = answer("densenet121", params, c, "float32");
  for (const std::string precision : {"bfloat16", "float16"}) {
    CAPTURE(precision);
    const Answer mine = answer("densenet121", params, c, precision);
    CHECK(mine.y.isfinite().all().item<bool>());
    CHECK(mine.input_grad.isfinite().all().item<bool>());
    CHECK(relative(mine.y, exact.y) < 0.1);
  }
}

// Memory that is used again next holds no numbers.
void poison_memory() {
  std::vector<at::Tensor> poison;
  for (const int kib : {1, 4, 16, 64, 128, 256, 512, 1024, 4096, 16384})
    for (int n = 0; n < 6; ++n) poison.push_back(at::full({kib * 256}, NAN));
}

TEST_CASE("grouped convolutions of few voxels in bfloat16 read nothing but what was written") {
  std::ifstream in(SLUICE_SOURCE_DIR "/tests/golden/nets/senet154.json");
  const Json c = Json::parse(in)["cases"][0];
  for (int pass = 0; pass < 3; ++pass) {
    poison_memory();
    const Answer mine = answer("senet154", c["params"], c, "bfloat16");
    CHECK(mine.y.isfinite().all().item<bool>());
    CHECK(at::cat(mine.weight_grads).isfinite().all().item<bool>());
  }
}

TEST_CASE("a deep network in bfloat16 has finite and equal gradients, pass by pass") {
  // oneDNN's gradient of a weight reads what nobody wrote where an image is two voxels wide.
  const Json params{{"spatial_dims", 3},       {"in_channels", 1},
                    {"out_channels", 2},       {"channels", {16, 32, 64, 128, 256}},
                    {"strides", {2, 2, 2, 2}}, {"num_res_units", 2},
                    {"norm", "BATCH"}};
  const Json c{{"size", {8, 1, 32, 32, 32}}};
  at::set_num_threads(2);
  at::Tensor first;
  for (int pass = 0; pass < 4; ++pass) {
    poison_memory();
    const Answer mine = answer("unet", params, c, "bfloat16");
    at::Tensor all = at::cat(mine.weight_grads);
    CHECK(all.isfinite().all().item<bool>());
    if (first.defined()) CHECK(at::equal(all, first));
    first = all;
  }
  at::set_num_threads(1);
}
