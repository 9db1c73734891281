// Times losses with their backward pass, and metrics, on one thread: the node alone, no graph. What
// losses.py and metrics.py run.
//
//   bench_losses_metrics < cases.json
//       [{"type": ..., "params": {...}, "fields": {"pred": "pred.npy", ...}, "loss": true}, ...]
//
// Prints of each, as JSON, the least processor milliseconds of five firings, the value, and the
// memory of one more that it takes at most: the peak of the resident set above what it was before.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>

#include "engine/state/drive.h"
#include "kernels/base/allocator.h"
#include "kernels/files/npy.h"

using namespace sluice;

namespace {

// Bytes of a line of /proc/self/status that is given in kB.
std::int64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return 1024 * std::stoll(line.substr(name.size() + 1));
  return 0;
}

// The peak of the resident set while `call` runs, above what it was before.
template <class F>
std::int64_t peak_bytes(const F& call) {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // forgets the peak
  const std::int64_t before = status("VmRSS");
  call();
  return status("VmHWM") - before;
}

double processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

struct Case {
  std::string type;
  Json params;
  Sample sample;
  bool is_loss;
  std::string metric;

  explicit Case(const Json& one)
      : type(one.at("type")),
        params(one.at("params")),
        is_loss(one.value("loss", false)),
        metric(one.value("metric", "mean")) {
    sample.name = "bench";
    for (const auto& [key, file] : one.at("fields").items())
      sample.set(key, Field(read_npy(file.get<std::string>()), std::make_shared<const Meta>()));
  }
  double value() const {
    Driver node(type, params);
    Sample fresh = sample;
    if (is_loss) {
      const at::Tensor pred = sample.tensor("pred").detach().requires_grad_();
      fresh.set("pred", Field(pred, sample.at("pred").meta));
    }
    const Fired fired = node.fire({fresh});
    if (is_loss) {
      const at::Tensor loss = fired.outs.at(0).sample->tensor("loss");
      loss.backward();
      return loss.item<double>();
    }
    for (const auto& [name, number] : node.flush())
      if (name == metric) return number;
    return 0;
  }
};

}  // namespace

int main() {
  at::set_num_threads(1);
  std::vector<Case> cases;
  for (const Json& one : Json::parse(std::cin)) cases.emplace_back(one);
  std::vector<std::int64_t> bytes;
  for (const Case& one : cases) {  // before tune_allocator(), which keeps blocks
    one.value();
    bytes.push_back(peak_bytes([&] { one.value(); }));
  }
  tune_allocator();  // as a run does
  Json out = Json::array();
  for (std::size_t k = 0; k < cases.size(); ++k) {
    double best = 1e30, value = 0;
    for (int i = 0; i < 5; ++i) {
      const double begin = processor_ms();
      value = cases[k].value();
      best = std::min(best, processor_ms() - begin);
    }
    out.push_back({{"ms", best}, {"value", value}, {"bytes", bytes[k]}});
  }
  std::cout << out.dump() << '\n';
}
