// One network's training step without its optimizer: forward, the means of the outputs' squares,
// and backward; or a prediction alone. What networks.py and prediction.py run.
//
//   bench_network JSON    {"type": "unet", "params": {...}, "size": [2, 1, 64, 64, 64],
//                          "precision": "float32", "steps": 5, "threads": 2, "predict": false,
//                          "layers": "kind", "more": [[3, 900], {"size": [2, 3]}], "outputs": 1}
//
// "more" are further inputs, by size or as values; the loss reads the first "outputs" outputs.
//
// Prints a JSON object: milliseconds of the fastest and the median step, the process's CPU time a
// step, and by how many MB the resident set grew at most. With "layers": milliseconds of each kind
// of layer, or of each by its "name", forward and backward, a step, of all threads together.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <utility>

#include "engine/base/openmp.h"
#include "engine/run/registry.h"
#include "engine/state/layered.h"
#include "engine/state/resource.h"
#include "kernels/base/allocator.h"
#include "tools/bench/clock.h"

using namespace sluice;

namespace {

// "VmRSS" or "VmHWM" (the most so far), in MB.
double resident(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(which)) return std::stod(line.substr(which.size() + 1)) / 1024;
  return 0;
}

Json costs_by(const std::string& what, const Network& net, std::int64_t samples) {
  std::map<std::string, std::pair<double, double>> costs;
  if (const auto* layered = dynamic_cast<const Layered*>(&net))
    for (const LayerCost& c : layered->layer_costs()) {
      auto& [forward, backward] = costs[what == "kind" ? c.kind : c.name + " (" + c.kind + ")"];
      forward += 1e3 * c.forward * static_cast<double>(samples);
      backward += 1e3 * c.backward * static_cast<double>(samples);
    }
  return costs;
}

at::Tensor waves(const std::vector<std::int64_t>& size) {
  return at::sin(at::arange(c10::multiply_integers(size), at::kFloat)).reshape(size).contiguous();
}

// Of lists of numbers, or of lists of such lists, all of one length.
at::Tensor values(const Json& lists) {
  if (lists.front().is_number()) return at::tensor(lists.get<std::vector<float>>());
  std::vector<at::Tensor> rows;
  for (const Json& row : lists) rows.push_back(values(row));
  return at::stack(rows);
}

}  // namespace

int main(int, char** argv) {
  start_again_with_sleeping_openmp(argv);
  tune_allocator();
  const Json job = Json::parse(argv[1]);
  at::get_num_threads();
  at::set_num_threads(job.value("threads", 2));
  Json params = job["params"];
  params["precision"] = job.value("precision", "float32");
  const auto net = Registry::global().make_network(job["type"], params);
  net->initialise(1);
  const bool predicts = job.value("predict", false);
  net->train(!predicts);
  const c10::AutoGradMode mode(!predicts);
  const auto size = job["size"].get<std::vector<std::int64_t>>();
  Network::Tensors x{waves(size)};
  for (const Json& more : job.value("more", Json::array()))
    x.push_back(more.is_object() ? waves(more["size"].get<std::vector<std::int64_t>>())
                                 : values(more));
  const std::size_t outputs = job.value("outputs", 1);
  const double before = resident("VmRSS");
  std::vector<double> times;
  double cpu = 0;
  const int steps = job.value("steps", 5);
  for (int i = -1; i < steps; ++i) {
    const double start = seconds(), cpu_start = cpu_seconds();
    at::Tensor loss;
    for (const at::Tensor& y : net->forward(x, outputs))
      if (!predicts) loss = loss.defined() ? loss + y.square().mean() : y.square().mean();
    if (!predicts) loss.backward();
    for (auto& [name, p] : net->parameters()) p.mutable_grad().reset();
    if (i < 0) continue;  // the first fills caches
    times.push_back(1e3 * (seconds() - start));
    cpu += 1e3 * (cpu_seconds() - cpu_start);
  }
  std::sort(times.begin(), times.end());
  Json result{{"min_ms", times.front()},
              {"median_ms", times[times.size() / 2]},
              {"cpu_ms", cpu / steps},
              {"peak_mb", resident("VmHWM") - before}};
  if (job.contains("layers")) result["layers"] = costs_by(job["layers"], *net, size[0]);
  std::cout << result.dump() << std::endl;
}
