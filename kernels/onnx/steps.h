// A network's own steps as nodes; for kernels/onnx alone.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/net/net.h"
#include "kernels/onnx/lines.h"
#include "kernels/onnx/quantize.h"
#include "kernels/onnx/record.h"

namespace sluice {
struct ConvStep;
struct NormActStep;
struct PoolStep;
struct LinearStep;
}  // namespace sluice

namespace sluice::onnx {

class StepWriter {
 public:
  // `sizes`: by record, by value of the network. `steps`: those that are written.
  StepWriter(const Net& net, Lines& lines, std::vector<std::vector<Step::Size>> sizes,
             const std::vector<int>& steps, bool fold, const Scales* scales);
  // Adds the step's nodes; its value gets a name.
  void write(const Step& step);
  Lines::Names names;  // by value of the network

 private:
  std::string written(const Step& step);
  std::string weight(int parameter);
  at::Tensor gamma(const NormActStep& step) const;
  at::Tensor beta(const NormActStep& step) const;
  const at::Tensor& buffer(int number) const { return net_.buffers[number].tensor; }
  const at::Tensor& parameter(int number) const { return net_.parameters[number].tensor; }
  const std::string& input(const Step& step, std::size_t i = 0) const {
    return names[step.inputs[i]];
  }
  std::size_t axes(const Step& step) const { return sizes_[0][step.inputs[0]].size(); }
  std::string conv(const ConvStep& step);
  std::string rounded(const ConvStep& step);
  std::string rounded_weight(const ConvStep& step, const at::Tensor& weight);
  std::string norm(const NormActStep& step);
  std::string normalised(const NormActStep& step);
  std::string group_norm(const NormActStep& step);
  std::string activated(const NormActStep& step, const std::string& x);
  std::string pool(const PoolStep& step);
  std::string linear(const LinearStep& step);
  std::string function(const TorchStep& step);

  const Net& net_;
  Lines& lines_;
  const std::vector<std::vector<Step::Size>> sizes_;
  const Scales* const scales_;  // null: convolutions compute as the rest does
  std::map<std::pair<std::string, double>, std::string> rounded_;  // by value and scale
  std::vector<const NormActStep*> folded_;  // by value: the norm that its convolution does as well
};

}  // namespace sluice::onnx
