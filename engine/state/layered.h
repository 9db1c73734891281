// What is known of a network's layers: what they cost in the passes so far, for `profile` and the
// picture of a network, and what one gives for a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct LayerCost {
  std::string name, kind;            // "model.0.conv", "conv"; some layers have no name
  double forward = 0, backward = 0;  // seconds a sample, of all threads together
  double kept = 0;                   // bytes a sample, from the forward to the backward pass
};

struct LayerView {
  at::Tensor network_output;  // the main one
  // The layer's, [N, C, ...] float32, and how much the sum of all scores changes with it (undefined
  // without a score).
  at::Tensor output, gradient;
};

// A network that knows its layers is one of these, too.
class Layered {
 public:
  virtual ~Layered() = default;
  virtual std::vector<LayerCost> layer_costs() const = 0;  // empty: nothing has run on the host
  // A pass, as after train(false). `layer`: its name; "": what is made one vector a sample last.
  // Throws Error(usage) where there is none. Parameters get no gradients.
  using Score = std::function<at::Tensor(const at::Tensor& network_output)>;
  virtual LayerView view_layer(const std::string& layer, const at::Tensor& x,
                               const Score& score) = 0;
};

}  // namespace sluice
