// Networks by name: what "models" in the graph file declares, shared by the nodes that read or
// update them. Whoever may touch one at a time is the scheduler's business (turns); nothing here
// locks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

// A sample's arithmetic in a forward pass, and the part that tensor cores can do: convolutions and
// matrix products in 16 bits whose channels are multiples of 8 (NVIDIA's rule for mixed precision).
struct Work {
  double multiply_adds = 0, on_tensor_cores = 0;
  // Bytes of values, gradients and what is saved: of a training step, of one that makes nothing
  // again, and of a window's prediction; the forward passes that a step makes again, and what it
  // moves to the host.
  double step_bytes = 0, step_bytes_kept = 0, window_bytes = 0, forward_again = 0, bytes_moved = 0;
};

// A network is its named parameters and buffers (PyTorch's state_dict names) and a forward pass.
// Inputs are [N, C, ...]; layout and precision are the network's own business.
class Network {
 public:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  using Tensors = std::vector<at::Tensor>;
  virtual ~Network() = default;
  // The first `count` outputs, the main one first; what only others need is left out. A network of
  // fewer outputs than that throws.
  virtual Tensors forward(const Tensors& x, std::size_t count) = 0;
  at::Tensor forward(const at::Tensor& x) { return forward(Tensors{x}, 1).front(); }
  virtual Named parameters() const = 0;
  virtual Named buffers() const { return {}; }
  // Told before passes whose weights may be others than the last one's.
  virtual void train(bool) {}
  // Batches on the first of these devices are shared by all of them.
  virtual void spread(const std::vector<at::Device>&) {}
  // Keys the random draws (dropout) of the next forward pass; the model node does so by stamp.
  virtual void key_draws(std::uint64_t) {}
  // Forward and backward queue the same work whenever shapes are the same, whatever the values.
  virtual bool recordable() const { return false; }
  // Its backward pass runs in float16, where small gradients vanish: the loss should be scaled.
  virtual bool computes_in_half() const { return false; }
  // Told after an optimizer's step: what weights must keep to, such as zeros, they do again.
  // Whether buffers have changed.
  virtual bool settle(std::uint32_t /*epoch*/) { return false; }
  // Of the last forward pass; not while one runs. Zeros where it keeps no account.
  virtual Work last_work() const { return {}; }
  // Where a pass over data begins: where the data is, or, of data on the host, where the weights
  // are. A pass moves the weights to it.
  at::Device begins_at(const at::Device& data) const {
    const Named all = parameters();
    return data.is_cpu() && !all.empty() ? all.front().second.device() : data;
  }
  // Draws the initial weights (PyTorch's rules), a pure function of the seed.
  virtual void initialise(std::uint64_t seed) = 0;
  virtual std::size_t output_count() const { return 1; }
  // Of the images that it takes; 0: nobody knows.
  virtual int spatial_axes() const { return 0; }
};

class Resources {
 public:
  // `loaded`: its weights are a file's.
  void add(const std::string& name, std::shared_ptr<Network> network, bool loaded = false) {
    networks_[name] = std::move(network);
    if (loaded) loaded_.insert(name);
  }
  const std::shared_ptr<Network>& network(const std::string& name) const {
    return networks_.at(name);
  }
  const std::map<std::string, std::shared_ptr<Network>>& networks() const { return networks_; }
  bool is_loaded(const std::string& name) const { return loaded_.contains(name); }

 private:
  std::map<std::string, std::shared_ptr<Network>> networks_;
  std::set<std::string> loaded_;
};

}  // namespace sluice
