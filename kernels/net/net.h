// A network: its list of steps, its parameters and buffers. builder.h makes one, pass.h runs it.
// Autograd sees one node for the whole network, whatever its depth.
//
// Invariant: where no step mixes samples (everything but batch norm), each thread takes its share
// of a batch, one sample after the other from first to last step (what one step wrote the next
// finds in the cache), and adds up its parameter gradients; the threads' sums are added in order.
// So equal step threads give equal bits.
//
//   thread 0   forward 0 ▶ 1 ▶ 2 ▶ 3 ▶       (loss)   backward 0 ▶ 1 ▶ 2 ▶ 3 ▶
//   thread 1   forward 4 ▶ 5 ▶ 6 ▶ 7 ▶                backward 4 ▶ 5 ▶ 6 ▶ 7 ▶  sum of gradients
//
// Several devices are the same with a device for a thread (places.h): spread() says which.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/net/costs.h"
#include "kernels/net/init.h"
#include "kernels/net/memory_plan.h"
#include "kernels/net/step.h"

namespace sluice {

struct Prepared;
struct Spread;

// What a pass does that makes the first so many outputs.
struct Schedule {
  std::vector<int> steps;     // those that such an output needs, in order
  std::vector<int> last_use;  // by value: the last step that reads it; -1: none does
  std::vector<bool> kept;     // by value: some backward reads it
};

// A step in words and numbers, for whoever walks the list: an exporter, a profile, a picture.
struct Described {
  std::string kind, name;
  std::vector<int> inputs;  // values; those of the network come first
  int output = 0;
  std::vector<std::string> parameters;
  Attributes attributes;
  std::string text() const;  // on one line
};

class Net {
 public:
  struct Parameter {
    std::string name;
    at::Tensor tensor;  // float32, a leaf that requires a gradient
    Init init;
    std::int64_t fan = 0;
  };
  struct Buffer {
    std::string name;
    at::Tensor tensor;
    std::string drawn_as = {};  // begins with standard normal draws, keyed by this name
  };
  using Tensors = std::vector<at::Tensor>;

  // Float32 in, float32 out, on x's device, where the weights follow; differentiable where autograd
  // is recording. The first `count` outputs; what only others need is not computed.
  Tensors forward(const Tensors& x, std::size_t count, bool training, std::uint64_t key);
  void initialise(std::uint64_t seed);
  // A batch on the first of these devices is from now on shared by all of them, as under PyTorch's
  // nn.DataParallel: parts of even size, one less where the batch is small; gradients added up in
  // the devices' order. Batch norm takes a part's own statistics, and the running ones follow those
  // of the first part. Of a network in stages (stages.h) each device does its stages of the whole
  // batch, with the bits of one device. Weights, gradients, inputs and outputs stay on the first.
  void spread(std::vector<at::Device> devices);
  // Copies on other devices, and weights in the form that steps compute with, are made anew by each
  // pass that keeps something for a backward one, and by the first pass after this call; others use
  // them again.
  void forget_copies();
  bool is_spread() const { return spread_ != nullptr; }
  // The layout that values have, and t in it.
  at::MemoryFormat layout(std::size_t axes) const;
  at::Tensor laid_out(const at::Tensor& t) const;
  bool draws() const { return draws_; }  // it has dropout
  std::size_t output_count() const { return outputs.size(); }
  std::vector<Described> describe() const;
  const Schedule& schedule(std::size_t outputs) const { return schedules_.at(outputs - 1); }
  // By value, for inputs of these.
  const std::vector<Step::Size>& sizes(const std::vector<Step::Size>& of_inputs) const;
  // By step; of passes on the host.
  std::vector<StepCost> costs() const { return costs_->each(); }
  // The products of the last forward pass, of one of its samples.
  std::vector<Step::Product> products() const;
  // What the last passes with and without a backward one take of memory, without weights.
  struct Memory {
    std::int64_t step = 0, window = 0;  // bytes
    std::int64_t all_kept = 0;          // of a step with nothing made again
    double forward_again = 0;
    std::int64_t moved = 0;  // bytes of a step that go to the host, and as many back
  };
  Memory memory() const;

  MemoryPolicy memory_policy;  // of passes with a backward one
  // Told on its frame's thread of each step that has run, while its inputs are there, forward and
  // then, where the frame has gradients, backward.
  std::function<void(const Step&, const Frame&)> observer;
  at::ScalarType compute = at::kFloat;  // of values and convolution weights
  bool channels_last = true;
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;
  std::vector<std::unique_ptr<Step>> steps;
  int inputs = 0, values = 0;  // values 0 .. inputs - 1 are the inputs
  std::vector<int> outputs;    // values

 private:
  friend class Builder;
  friend class Pass;
  void finish();  // once the list is complete
  void move_to(const at::Device& device);

  std::shared_ptr<Costs> costs_;
  std::shared_ptr<Spread> spread_;      // null: all on one device
  std::shared_ptr<Prepared> prepared_;  // of passes without gradients
  std::vector<Step::Size> worked_out_sizes(const std::vector<Step::Size>& of_inputs) const;
  // Of passes of these sizes, cut so; null: all is kept.
  std::shared_ptr<const MemoryPlan> plan_for(const Schedule& schedule,
                                             const std::vector<Step::Size>& of_inputs,
                                             FrameCount count);

  mutable std::vector<Step::Size> sized_for_, sizes_;
  struct Planned {
    const Schedule* schedule = nullptr;
    std::vector<Step::Size> of_inputs;
    FrameCount count;
    std::shared_ptr<const MemoryPlan> plan;
  } planned_, window_;               // of the last passes: with a backward one, and without
  std::vector<Schedule> schedules_;  // by number of outputs, less one
  bool mixes_samples_ = false, draws_ = false;
};

}  // namespace sluice
