// Times losses with their backward pass, and metrics, on one thread: the node alone, no graph. What
// losses.py and metrics.py run.
//
//   bench_losses_metrics < cases.json
//       [{"type": ..., "params": {...}, "fields": {"pred": "pred.npy", ...}, "loss": true}, ...]
//
// Prints of each, as JSON, the least processor milliseconds of five firings, and the value.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <ctime>
#include <iostream>

#include "engine/state/drive.h"
#include "kernels/files/npy.h"

using namespace sluice;

namespace {

double processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

Json timed(const Json& one) {
  const bool is_loss = one.value("loss", false);
  Sample in;
  in.name = "bench";
  for (const auto& [key, file] : one.at("fields").items())
    in.set(key, Field(read_npy(file.get<std::string>()), std::make_shared<const Meta>()));
  double best = 1e30, value = 0;
  for (int i = 0; i < 5; ++i) {
    Driver node(one.at("type"), one.at("params"));
    Sample fresh = in;
    at::Tensor pred = in.tensor("pred").detach();
    if (is_loss) fresh.set("pred", Field(pred.requires_grad_(), in.at("pred").meta));
    const double begin = processor_ms();
    const Fired fired = node.fire({fresh});
    if (is_loss) {
      const at::Tensor loss = fired.outs.at(0).sample->tensor("loss");
      loss.backward();
      value = loss.item<double>();
    } else {
      for (const auto& [name, number] : node.flush())
        if (name == one.value("metric", "mean")) value = number;
    }
    best = std::min(best, processor_ms() - begin);
    pred.mutable_grad() = at::Tensor();
  }
  return {{"ms", best}, {"value", value}};
}

}  // namespace

int main() {
  at::set_num_threads(1);
  Json out = Json::array();
  for (const Json& one : Json::parse(std::cin)) out.push_back(timed(one));
  std::cout << out.dump() << '\n';
}
