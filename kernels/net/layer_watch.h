// What a network's passes give at a layer, and the gradient there: for pictures of what an answer
// depends on.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/net/net.h"

namespace sluice {

// The steps from the first to the last that are called `layer`, or that a layer of this name holds.
// Throws Error(usage) where there are none; its text begins with `who` and says a similar name.
std::pair<int, int> steps_called(const Net& net, const std::string& layer, const std::string& who);

// The value that a layer ends with, for inputs of these sizes: of the last step called so, or of
// what follows it without a name and keeps its extents (an activation, a sum, a concatenation). A
// norm and its activation are one step. With "" that which is made one vector a sample last: what a
// classifier pools. Throws Error(usage) where there is none.
int value_at(const Net& net, const std::string& layer, const std::vector<Step::Size>& of_inputs);

// While it lives, the net's passes leave a copy of what they give at the value.
class LayerWatch {
 public:
  LayerWatch(Net& net, int value);
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;
  ~LayerWatch() { net_.observer = nullptr; }
  // [N, C, ...] float32 of the last pass; undefined before it.
  at::Tensor output() const { return joined(outputs_); }
  at::Tensor gradient() const { return joined(gradients_); }

 private:
  using ByFirstSample = std::map<std::int64_t, at::Tensor>;
  static at::Tensor joined(const ByFirstSample& parts);
  Net& net_;
  std::mutex mutex_;
  ByFirstSample outputs_, gradients_;
};

}  // namespace sluice
