// One operation of a network's list, with an explicit backward, and what it works on.
//
//   value 0 ──conv──▶ 1 ──norm──▶ 2 ──conv──▶ 3 ...      backward walks the list from its end
//
// Invariant: a step changes nothing but its Frame, so frames may run on any thread at once; only
// batch norm writes running statistics, in the one frame of a pass that leads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

class Net;
struct Schedule;

// A network's tensors as a pass reads them, on one device: the network's own, or copies of those
// that the device's steps read. Buffers that are not float32, counters, are always the network's.
struct Replica {
  std::vector<at::Tensor> weights;  // by parameter, without their history
  std::vector<at::Tensor> buffers;
  std::vector<std::shared_ptr<const void>> prepared;  // by step
};

// The pass of one sample, or of a few small ones: values, then gradients by value; what steps
// saved; the thread's sums of parameter gradients, in float32.
struct Frame {
  const Net* net = nullptr;
  const Schedule* schedule = nullptr;
  const Replica* replica = nullptr;
  std::vector<at::Tensor> values, grads;
  std::vector<std::vector<at::Tensor>> saved;  // by step
  std::vector<at::Tensor>* parameter_grads = nullptr;
  std::vector<at::Tensor> results;  // where the outputs go, float32
  std::vector<bool> wants;          // by value: its gradient is needed
  std::vector<bool> trains;         // by parameter: the same
  bool training = false;            // batch statistics, dropout
  bool keep = false;                // a backward pass will follow
  bool leads = true;                // running statistics follow it, and not another device's part
  std::int64_t first_sample = 0;
  std::uint64_t key = 0;  // of this pass's random draws

  const at::Tensor& weight(int parameter) const { return replica->weights[parameter]; }
  // Where a value may be written at once: it is an output and no step reads it. Else undefined.
  at::Tensor result_of(int value) const;
  void add_grad(int value, const at::Tensor& grad);
  void add_parameter_grad(int parameter, const at::Tensor& grad);
  // Of a matrix [out, in] that made rows [N, out], whose gradients these are, from rows [N, in].
  void add_matrix_grad(int parameter, const at::Tensor& grad, const at::Tensor& rows);
};

// What a step may know when a pass begins, before the batch is cut into frames.
struct Preparation {
  const Net& net;
  const std::vector<at::Tensor>&weights, &buffers;
  const std::vector<std::vector<std::int64_t>>& sizes;  // by value
  bool cpu, keep;
  bool for_one;  // one frame will use what is prepared
};

// What an exporter or a profile wants to know of a step beside its kind, name and values.
using Attribute = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::string>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

// The memory layout that a step's loops are made for.
enum class Layout { any, channels_last, channels_first };

class Step {
 public:
  int number = 0;    // its place in the list
  std::string name;  // of its scope, as "model.0.conv"
  std::vector<int> inputs;
  std::vector<bool> keeps;  // by input: backward reads it
  int output = 0;
  bool keeps_output = false;  // backward reads it
  // body(value) of each value that backward reads.
  template <class F>
  void each_kept(const F& body) const {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (keeps[i]) body(inputs[i]);
    if (keeps_output) body(output);
  }
  virtual ~Step() = default;
  virtual std::string kind() const = 0;
  virtual Attributes attributes() const { return {}; }
  virtual std::vector<int> parameters() const { return {}; }  // that it reads
  virtual std::vector<int> buffers() const { return {}; }     // that it reads, and may change
  virtual Layout layout() const { return Layout::any; }
  virtual bool mixes_samples() const { return false; }  // in training
  virtual bool draws() const { return false; }          // random numbers

  using Size = std::vector<std::int64_t>;
  virtual Size output_size(const std::vector<Size>& of_inputs) const { return of_inputs[0]; }
  // A matrix product or convolution: multiply-adds for an input of this size, and its channels.
  struct Product {
    double multiply_adds = 0;
    std::int64_t in = 0, out = 0;
  };
  virtual Product product(const Size& /*input*/) const { return {}; }
  // What the memory plan asks (memory_plan.h). What forward saves for backward: bytes that count
  // beside small ones, and whether it holds the inputs and the output too, as LibTorch's record
  // does.
  virtual std::int64_t saved_bytes(const Size& /*output*/) const { return 0; }
  virtual bool records() const { return false; }
  // The input's gradient is the output's, and no further tensor.
  virtual bool shares_grad(std::size_t /*input*/) const { return false; }
  // Work that all frames share, such as weights in the form that the step computes with.
  virtual std::shared_ptr<const void> prepare(const Preparation&) const { return nullptr; }
  virtual at::Tensor forward(Frame& f) const = 0;
  virtual void backward(Frame& f, const at::Tensor& grad) const = 0;
};

}  // namespace sluice
