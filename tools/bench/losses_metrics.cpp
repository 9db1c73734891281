// Times losses with their backward pass, and metrics, on one thread: the node alone, no graph. What
// losses.py and metrics.py run.
//
//   bench_losses_metrics < cases.json
//       [{"type": ..., "params": {...}, "fields": {"pred": "pred.npy", ...}, "loss": true}, ...]
//
// Prints of each, as JSON, the least processor milliseconds of five firings, the value, and the
// most bytes of tensors at once.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <ctime>
#include <iostream>

#include "engine/state/drive.h"
#include "kernels/base/allocator.h"
#include "kernels/files/npy.h"

using namespace sluice;

namespace {

// The most bytes at once of what LibTorch's allocator gives while this is asked.
struct Bytes final : c10::MemoryReportingInfoBase {
  std::int64_t now = 0, most = 0;
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    now += size;
    most = std::max(most, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
};

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
  for (const Case& one : cases) {  // before tune_allocator(), whose blocks are not reported
    const auto counted = std::make_shared<Bytes>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counted);
    one.value();
    bytes.push_back(counted->most);
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
