// `sluice profile --isolate`: what each node can do alone. The first inputs of every node of the
// data side are kept while the run goes on; then they are put through the node again and again, on
// 1, 2, 4, ... threads, with nothing else running.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/judge/figures.h"
#include "engine/run/forward.h"

namespace sluice {

// Stands before a node and keeps the inputs of its first firings.
class Captured final : public Forward {
 public:
  static constexpr std::size_t keep = 8;
  using Forward::Forward;
  void process(Firing& f) override;

  // Firings a second on so many threads; 0 where nothing came in.
  double rate(int threads, double seconds, const std::function<void()>& on_thread);

 private:
  struct Input {
    Stamp stamp;
    std::vector<std::vector<SamplePtr>> ports;
  };
  std::mutex mutex_;
  std::vector<Input> inputs_;
};

// Whether it makes sense alone: not a source, not ordered, not part of the training region.
bool stands_alone(const PlanNode& node);

}  // namespace sluice
