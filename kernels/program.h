// A network's forward pass as a straight list of steps over numbered values, each with an explicit
// backward. Autograd sees one node for the whole network, whatever its depth.
//
//   value 0 ──conv──▶ 1 ──norm_act──▶ 2 ──conv──▶ 3 ...      backward walks the list from its end
//
// Invariant: where no step mixes samples (everything but batch norm), a batch is cut into one
// chunk for every step thread; a chunk is run by one thread from first to last step and parameter
// gradients are added up in the chunks' order. So equal step threads give equal bits.
//
//   thread 0   forward samples 0-3 ▶         (loss)   backward 0-3 ▶
//   thread 1   forward samples 4-7 ▶                  backward 4-7 ▶  sum of gradients
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

class Program;

// What one chunk's pass holds: values, then gradients by value; what steps saved; the parameters'
// gradients in float32.
struct Frame {
  const Program* program = nullptr;
  const std::vector<at::Tensor>* weights = nullptr;  // by parameter, as the steps compute with them
  std::vector<at::Tensor> values, grads;
  std::vector<std::vector<at::Tensor>> saved;  // by step
  std::vector<at::Tensor> parameter_grads;
  std::vector<bool> wants;  // by value: its gradient is needed
  bool training = false;    // batch statistics, dropout
  bool keep = false;        // a backward pass will follow
  std::int64_t first_sample = 0;
  std::uint64_t key = 0;  // of this pass's random draws

  const at::Tensor& weight(int parameter) const { return (*weights)[parameter]; }
  void add_grad(int value, const at::Tensor& grad);
  void add_parameter_grad(int parameter, const at::Tensor& grad);
};

class Step {
 public:
  int number = 0;
  std::vector<int> inputs;
  std::vector<bool> keeps;  // by input: backward reads it
  int output = 0;
  virtual ~Step() = default;
  virtual at::Tensor forward(Frame& f) const = 0;
  virtual void backward(Frame& f, const at::Tensor& grad) const = 0;
};

struct ConvSpec {
  bool transposed = false;
  std::int64_t in = 1, out = 1;
  std::vector<std::int64_t> kernel, stride, padding, output_padding;
};

enum class Norm { none, instance, batch };

class Program {
 public:
  enum class Init { conv, zeros, ones, slope };
  struct Parameter {
    std::string name;
    at::Tensor tensor;  // float32, a leaf that requires a gradient
    Init init;
    std::int64_t fan_in;
    std::optional<ConvSpec> conv;  // a convolution's weight: cast to the compute type
  };
  struct Buffer {
    std::string name;
    at::Tensor tensor;
  };

  at::ScalarType compute = at::kFloat;  // of values and convolution weights
  bool channels_last = true;

  // Building: each call appends a step and returns its value; value 0 is the input.
  int parameter(std::string name, std::vector<std::int64_t> shape, Init init, std::int64_t fan_in,
                std::optional<ConvSpec> conv = {});
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
  // Ends the building.
  void finish(int output);

  // Float32 in, float32 out; differentiable where autograd is recording.
  at::Tensor forward(const at::Tensor& x, bool training, std::uint64_t key);
  void initialise(std::uint64_t seed);

  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;

 private:
  friend struct Run;
  int append(std::unique_ptr<Step> step);
  std::vector<at::Tensor> prepare_weights() const;

  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<int> last_use_;  // by value: the last step that reads it
  std::vector<bool> kept_;     // by value: some backward reads it
  int values_ = 1, output_ = 0;
  bool mixes_samples_ = false;
};

}  // namespace sluice
