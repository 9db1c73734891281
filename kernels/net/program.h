// A network's forward pass as a straight list of steps over numbered values, each with an explicit
// backward. Autograd sees one node for the whole network, whatever its depth.
//
//   value 0 ──conv──▶ 1 ──norm_act──▶ 2 ──conv──▶ 3 ...      backward walks the list from its end
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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/net/conv_spec.h"

namespace sluice {

class Program;
struct Spread;

// A network's tensors as a pass reads them, on one device: the network's own, or copies.
struct Replica {
  std::vector<at::Tensor> weights;                    // by parameter, without their history
  std::vector<at::Tensor> buffers;                    // of copies, those in float32
  std::vector<std::shared_ptr<const void>> prepared;  // by step
};

// The pass of one sample, or of a few small ones: values, then gradients by value; what steps
// saved; the thread's sums of parameter gradients, in float32.
struct Frame {
  const Program* program = nullptr;
  const Replica* replica = nullptr;
  std::vector<at::Tensor> values, grads;
  std::vector<std::vector<at::Tensor>> saved;  // by step
  std::vector<at::Tensor>* parameter_grads = nullptr;
  at::Tensor result;        // where the output goes, float32
  std::vector<bool> wants;  // by value: its gradient is needed
  bool training = false;    // batch statistics, dropout
  bool keep = false;        // a backward pass will follow
  bool leads = true;        // running statistics follow it, and not a frame on another device
  std::int64_t first_sample = 0;
  std::uint64_t key = 0;  // of this pass's random draws

  const at::Tensor& weight(int parameter) const { return replica->weights[parameter]; }
  void add_grad(int value, const at::Tensor& grad);
  void add_parameter_grad(int parameter, const at::Tensor& grad);
};

// What a step may know when a pass begins, before the batch is cut into frames.
struct Pass {
  const Program& program;
  const std::vector<at::Tensor>& weights;
  bool cpu, keep;
};

class Step {
 public:
  int number = 0;
  std::vector<int> inputs;
  std::vector<bool> keeps;  // by input: backward reads it
  int output = 0;
  virtual ~Step() = default;
  using Size = std::vector<std::int64_t>;
  virtual Size output_size(const std::vector<Size>& of_inputs) const { return of_inputs[0]; }
  // A matrix product or convolution: multiply-adds for an input of this size, and its channels.
  struct Product {
    double multiply_adds = 0;
    std::int64_t in = 0, out = 0;
  };
  virtual Product product(const Size& /*input*/) const { return {}; }
  // Work that all frames share, such as weights in the form that the step computes with.
  virtual std::shared_ptr<const void> prepare(const Pass&) const { return nullptr; }
  virtual at::Tensor forward(Frame& f) const = 0;
  virtual void backward(Frame& f, const at::Tensor& grad) const = 0;
};

enum class Norm { none, instance, batch };

class Program {
 public:
  // conv: uniform within 1 / sqrt(fan_in), PyTorch's default for linear layers too; kaiming: normal
  // with variance 2 / fan_in (He et al. 2015).
  enum class Init { conv, zeros, ones, slope, kaiming };
  struct Parameter {
    std::string name;
    at::Tensor tensor;  // float32, a leaf that requires a gradient
    Init init;
    std::int64_t fan_in;
  };
  struct Buffer {
    std::string name;
    at::Tensor tensor;
  };

  at::ScalarType compute = at::kFloat;  // of values and convolution weights
  bool channels_last = true;
  // The host makes one frame of a batch: for LibTorch's float32 convolutions, which take another,
  // slower way for small images that come one by one.
  bool whole_batches = false;

  // Building: each call appends a step and returns its value; value 0 is the input. A parameter
  // that was there by its name is that one, so an order may be declared first.
  int parameter(std::string name, std::vector<std::int64_t> shape, Init init, std::int64_t fan_in);
  int buffer(std::string name, at::Tensor tensor);
  struct ConvResult {
    int value, bias;  // bias: the parameter, or -1
  };
  // "NAME.weight" and "NAME.bias"; where `absorbed`, the next norm takes the bias away again, so it
  // is not computed with (its gradient is zero) and `bias` is for norm().
  ConvResult conv(int x, const std::string& name, const ConvSpec& spec, bool bias, bool absorbed);
  struct NormActSpec {
    Norm norm = Norm::none;
    std::string norm_name;  // batch norm: NAME.weight, NAME.bias, NAME.running_mean, ...
    std::optional<double> fixed_slope;  // an activation without a parameter: u > 0 ? u : slope * u
    std::string slope_name;             // PReLU: NAME.weight
    int bias = -1;                      // of the convolution in front of the norm, left out there
  };
  int norm_act(int x, std::int64_t channels, const NormActSpec& spec);
  int dropout(int x, double p);
  // x + residual; done by the step that made x where that can.
  int add(int x, int residual);
  int concat(int a, int b, std::int64_t a_channels);
  int relu(int x);
  // Over windows of `kernel`, one entry a spatial axis; the average has no padding.
  int max_pool(int x, std::vector<std::int64_t> kernel, std::vector<std::int64_t> stride,
               std::vector<std::int64_t> padding);
  int avg_pool(int x, std::vector<std::int64_t> kernel, std::vector<std::int64_t> stride);
  int global_avg_pool(int x);  // [N, C]
  // All but the first axis flattened, then "NAME.weight" [out, in] and "NAME.bias".
  int linear(int x, const std::string& name, std::int64_t in, std::int64_t out);
  int group_norm_relu(int x, const std::string& name, std::int64_t channels, std::int64_t groups);
  int doubled(int x);                     // every extent, by linear interpolation
  int dropout_channels(int x, double p);  // whole ones
  // Ends the building.
  void finish(int output);

  // Float32 in, float32 out, on x's device, where the weights follow; differentiable where autograd
  // is recording.
  at::Tensor forward(const at::Tensor& x, bool training, std::uint64_t key);
  void initialise(std::uint64_t seed);
  // A batch on the first of these devices is from now on shared by all of them, as under PyTorch's
  // nn.DataParallel: parts of even size, one less where the batch is small; gradients added up in
  // the devices' order. Batch norm takes a part's own statistics, and the running ones follow those
  // of the first part. Weights, gradients, input and output stay on the first device.
  void spread(std::vector<at::Device> devices);
  // Copies on other devices are made anew by each pass that keeps something for a backward one, and
  // by the first pass behind this call; others use them again.
  void forget_copies();
  bool is_spread() const { return spread_ != nullptr; }
  // The layout that values have, and t in it.
  at::MemoryFormat layout(std::size_t axes) const;
  at::Tensor laid_out(const at::Tensor& t) const;
  int output() const { return output_; }
  bool draws() const { return draws_; }  // it has dropout
  std::vector<std::int64_t> output_size(at::IntArrayRef input) const;
  // The products of the last forward pass.
  std::vector<Step::Product> products() const;

  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;

 private:
  friend struct Run;
  int append(std::unique_ptr<Step> step);
  void move_to(const at::Device& device);
  std::vector<Step::Size> sizes(at::IntArrayRef input) const;  // by value

  std::shared_ptr<Spread> spread_;  // null: all on one device
  std::vector<std::int64_t> last_input_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<int> last_use_;  // by value: the last step that reads it
  std::vector<bool> kept_;     // by value: some backward reads it
  int values_ = 1, output_ = 0;
  bool mixes_samples_ = false, draws_ = false;
};

}  // namespace sluice
