// What a network's layers cost in the passes so far, for `profile` and the picture of a network.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct LayerCost {
  std::string name, kind;            // "model.0.conv", "conv"; some layers have no name
  double forward = 0, backward = 0;  // seconds a sample, of all threads together
  double kept = 0;                   // bytes a sample, from the forward to the backward pass
};

// A network that keeps account of its layers is one of these, too.
class Layered {
 public:
  virtual ~Layered() = default;
  virtual std::vector<LayerCost> layer_costs() const = 0;  // empty: nothing has run on the host
};

}  // namespace sluice
