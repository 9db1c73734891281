// Every network with golden values computes in 16 bits too, near to what it answers in float32.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "engine/run/registry.h"
#include "engine/state/resource.h"

using namespace sluice;

namespace {

struct Answer {
  at::Tensor y, input_grad;
};

Answer answer(const std::string& type, Json params, const Json& c, const std::string& precision) {
  params["precision"] = precision;
  const auto net = Registry::global().make_network(type, params);
  net->initialise(3);
  net->train(true);  // untrained statistics let small values vanish
  const auto sizes = c.value("more", std::vector<std::vector<std::int64_t>>{});
  Network::Tensors inputs;
  const auto add = [&](const std::vector<std::int64_t>& size) {
    const at::Tensor k = at::arange(c10::multiply_integers(size));
    inputs.push_back(at::sin(k * 0.37).reshape(size).requires_grad_());
  };
  add(c["size"]);
  for (const auto& size : sizes) add(size);
  const at::Tensor y = net->forward(inputs, 1)[0];
  y.square().mean().backward();
  return {y.detach(), inputs[0].grad()};
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / (b.norm() + 1e-30)).item<double>();
}

}  // namespace

TEST_CASE("every network computes in 16 bits, forward and backward") {
  int tried = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/tests/golden/nets")) {
    std::ifstream in(file.path());
    const Json all = Json::parse(in);
    for (const Json& c : all["cases"]) {
      const Answer exact = answer(all["type"], c["params"], c, "float32");
      for (const bool brain : {true, false}) {
        const std::string precision = brain ? "bfloat16" : "float16";
        CAPTURE(all["type"].dump());
        CAPTURE(c["params"].dump());
        CAPTURE(precision);
        const Answer mine = answer(all["type"], c["params"], c, precision);
        CHECK(relative(mine.y, exact.y) < (brain ? 0.15 : 0.05));
        CHECK(mine.input_grad.isfinite().all().item<bool>());
        ++tried;
      }
    }
  }
  CHECK(tried >= 10);
}

TEST_CASE("3-D networks that pool averages compute in 16 bits") {
  const Json c{{"size", {2, 1, 32, 32, 32}}};
  const Json params{{"spatial_dims", 3},
                    {"in_channels", 1},
                    {"out_channels", 2},
                    {"init_features", 8},
                    {"growth_rate", 4}};
  const Answer exact = answer("densenet121", params, c, "float32");
  for (const std::string precision : {"bfloat16", "float16"}) {
    CAPTURE(precision);
    const Answer mine = answer("densenet121", params, c, precision);
    CHECK(mine.y.isfinite().all().item<bool>());
    CHECK(mine.input_grad.isfinite().all().item<bool>());
    CHECK(relative(mine.y, exact.y) < 0.3);
  }
}
