// What each step of a network has cost so far: passes add to it, whoever reports reads it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace sluice {

struct StepCost {
  double forward = 0, backward = 0;  // seconds a sample, of all threads together
  double kept = 0;                   // bytes a sample, from the forward to the backward pass
};

// Of passes on the host: on a device a step ends later than its call.
class Costs {
 public:
  explicit Costs(std::size_t steps) : forward_(steps), backward_(steps), kept_(steps) {}

  using Clock = std::chrono::steady_clock;
  void add_forward(int step, Clock::time_point since) { forward_[step] += elapsed(since); }
  void add_backward(int step, Clock::time_point since) { backward_[step] += elapsed(since); }
  void add_kept(int step, std::int64_t bytes) { kept_[step] += bytes; }
  // A pass with so many samples has ended.
  void end_forward(std::int64_t samples) { forwarded_ += samples; }
  void end_backward(std::int64_t samples) { backwarded_ += samples; }
  // What is kept is counted in the first training pass alone.
  bool counts_kept() const { return counted_ == 0; }
  void end_counting(std::int64_t samples) { counted_ += samples; }

  std::vector<StepCost> each() const {
    std::vector<StepCost> all(forward_.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = {share(forward_[i], forwarded_) * 1e-9, share(backward_[i], backwarded_) * 1e-9,
                share(kept_[i], counted_)};
    return all;
  }

 private:
  using Sum = std::atomic<std::int64_t>;
  static std::int64_t elapsed(Clock::time_point since) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since).count();
  }
  static double share(const Sum& sum, const Sum& samples) {
    return samples > 0 ? static_cast<double>(sum) / static_cast<double>(samples) : 0;
  }
  std::vector<Sum> forward_, backward_, kept_;
  Sum forwarded_ = 0, backwarded_ = 0, counted_ = 0;
};

}  // namespace sluice
