// Times sliding_window with a network that costs next to nothing. What sliding_window.py runs.
//
//   bench_windows JSON     {"params": ..., "size": [X, Y, Z], "threads": 2, "channels": 3, "runs":
//   5,
//                           "argmax_behind": false, "logits": "float32", "tuned": true}
//
// Prints a JSON object: milliseconds of each firing but the first, those of all its threads
// together, and how much the resident set grew at most in the first. Channel c of the logits is
// image * (c + 1) - c * c / 2.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>

#include "engine/base/openmp.h"
#include "engine/state/drive.h"
#include "engine/state/resource.h"
#include "kernels/base/allocator.h"

using namespace sluice;

namespace {

struct Cheap final : Network {
  at::Tensor factor, offset;
  at::ScalarType type;
  Cheap(std::int64_t channels, at::ScalarType t) : type(t) {
    const at::Tensor c = at::arange(channels, at::kFloat).view({1, channels, 1, 1, 1});
    factor = c + 1;
    offset = c * c / -2;
  }
  Tensors forward(const Tensors& x, std::size_t) override {
    return {at::addcmul(offset, x[0], factor).to(type)};
  }
  Named parameters() const override { return {}; }
  void initialise(std::uint64_t) override {}
};

double peak_mib() {  // since the last reset
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace

int main(int, char** argv) {
  start_again_with_sleeping_openmp(argv);
  const Json job = Json::parse(argv[1]);
  if (job.value("tuned", true)) tune_allocator();  // as a run does
  at::set_num_threads(job.value("threads", 2));
  const auto size = job.at("size").get<std::vector<std::int64_t>>();
  OpenContext context;
  context.resources = std::make_shared<Resources>();
  const auto type = job.value("logits", "float32") == "bfloat16" ? at::kBFloat16 : at::kFloat;
  context.resources->add("net", std::make_shared<Cheap>(job.value("channels", 3), type));
  Json params = job.at("params");
  params["net"] = "net";
  Driver node("sliding_window", params, context), argmax("argmax", Json::object());
  at::manual_seed(1);
  Sample in;
  in.name = "bench";
  in.set("image", Field(at::rand({1, size[0], size[1], size[2]}), std::make_shared<const Meta>()));
  Json ms = Json::array(), cpu_ms = Json::array();
  double grew = 0;
  for (int i = 0; i <= job.value("runs", 5); ++i) {
    reset_peak();
    const double before = peak_mib();
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t worked = std::clock();
    Sample out = node.fire({in}).samples().front();
    if (job.value("argmax_behind", false)) out = argmax.fire({out}).samples().front();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (i > 0) ms.push_back(took.count());
    if (i > 0) cpu_ms.push_back(1e3 * static_cast<double>(std::clock() - worked) / CLOCKS_PER_SEC);
    if (i == 0) grew = peak_mib() - before;  // later ones find what glibc has kept
  }
  std::cout << Json{{"ms", ms}, {"cpu_ms", cpu_ms}, {"grew_mib", grew}}.dump() << '\n';
}
