// Times the training step of the hippocampus network, the CPU benchmark of this project:
// U-Net (16, 32, 64), batch 8 of [1, 48, 64, 48], 3 classes, Dice + CE, Adam 3e-3.
//
//   bench_train_step [steps] [threads] [float32|bfloat16]
//
// Prints one JSON line: the fastest and the median step, and the process's CPU time a step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "engine/base/openmp.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"
#include "kernels/base/allocator.h"
#include "tools/bench/clock.h"

using namespace sluice;

namespace {

// One node fired once.
SamplePtr fire(Node& node, SamplePtr in) {
  const std::function<bool()> stopped = [] { return false; };
  Firing f(Stamp{}, 1, {{std::move(in)}}, stopped);
  node.process(f);
  return f.outs().empty() ? nullptr : f.outs()[0].sample;
}

std::unique_ptr<Node> make(const std::string& type, Json params, const OpenContext& context) {
  auto node = Registry::global().make_node(type, params);
  node->open(context);
  return node;
}

}  // namespace

int main(int argc, char** argv) {
  start_again_with_sleeping_openmp(argv);
  tune_allocator();
  const int steps = argc > 1 ? std::stoi(argv[1]) : 20;
  const int threads = argc > 2 ? std::stoi(argv[2]) : 2;
  const std::string precision = argc > 3 ? argv[3] : "bfloat16";
  at::get_num_threads();
  at::set_num_threads(threads);

  OpenContext context;
  context.training = true;
  context.resources = std::make_shared<Resources>();
  context.resources->add("net",
                         Registry::global().make_network("unet", {{"spatial_dims", 3},
                                                                  {"in_channels", 1},
                                                                  {"out_channels", 3},
                                                                  {"channels", {16, 32, 64}},
                                                                  {"strides", {2, 2}},
                                                                  {"num_res_units", 1},
                                                                  {"precision", precision}}));
  context.resources->network("net")->initialise(1);
  const auto model = make("model", {{"net", "net"}}, context);
  const auto loss = make("dice_ce_loss", {{"to_onehot_y", true}, {"softmax", true}}, context);
  const auto adam = make("adam", {{"net", "net"}, {"lr", 3e-3}}, context);

  Sample batch;
  const at::Tensor x =
      at::sin(at::arange(8 * 48 * 64 * 48, at::kFloat)).reshape({8, 1, 48, 64, 48});
  batch.set("image", Field(x, std::make_shared<const Meta>()));
  batch.set("label", Field(((x > 0.3).to(at::kFloat) + (x > 0.8)), std::make_shared<const Meta>()));
  const auto in = std::make_shared<const Sample>(std::move(batch));

  std::vector<double> times;
  double cpu = 0, last = 0;
  for (int i = -2; i < steps; ++i) {
    const double start = seconds(), cpu_start = cpu_seconds();
    const SamplePtr out = fire(*loss, fire(*model, in));
    fire(*adam, out);
    last = out->tensor("loss").item<double>();
    if (i < 0) continue;  // the first steps fill caches
    times.push_back(seconds() - start);
    cpu += cpu_seconds() - cpu_start;
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"arm\": \"sluice %s\", \"min_ms\": %.1f, \"median_ms\": %.1f, \"cpu_ms\": %.1f, "
      "\"loss\": %.6f}\n",
      precision.c_str(), 1e3 * times.front(), 1e3 * times[times.size() / 2], 1e3 * cpu / steps,
      last);
}
