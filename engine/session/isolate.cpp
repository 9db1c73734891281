#include "engine/session/isolate.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/base/seconds_since.h"
#include "engine/state/tensor_device.h"

namespace sluice {

// On a device's lanes a firing only queues work.
bool stands_alone(const PlanNode& node) {
  return !node.is_source() && !node.ordered && node.lane != LaneKind::step &&
         (node.lane != LaneKind::copy || !find_device()) && node.spec->arity != Arity::shuffle &&
         !node.spec->is_cache;
}

void Captured::process(Firing& f) {
  {
    std::lock_guard lock(mutex_);
    if (inputs_.size() < keep) inputs_.push_back({f.stamp(), f.inputs()});
  }
  node_->process(f);
}

double Captured::rate(int threads, double seconds, const std::function<void()>& on_thread) {
  if (inputs_.empty()) return 0;
  const std::function<bool()> stopped = [] { return false; };
  std::atomic<std::uint64_t> fired{0};
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return seconds_since(begin); };
  std::atomic<bool> failed{false};
  const auto work = [&](std::size_t first) {
    on_thread();
    for (std::size_t i = first; elapsed() < seconds && !failed; ++i) {
      const Input& in = inputs_[i % inputs_.size()];
      Firing firing(in.stamp, 0, in.ports, stopped);
      try {
        node_->process(firing);
        for (; firing.has_rest(); firing.outs().clear()) firing.emit_some(64);
      } catch (const std::exception&) {
        failed = true;  // a sample that was quarantined in the run fails here too
      }
      ++fired;
    }
  };
  std::vector<std::jthread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back(work, static_cast<std::size_t>(t));
  all.clear();
  return failed ? 0 : static_cast<double>(fired) / elapsed();
}

}  // namespace sluice
