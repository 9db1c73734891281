#include "kernels/onnx/steps.h"

#include <ATen/ATen.h>

#include "engine/base/error.h"
#include "kernels/net/conv_step.h"
#include "kernels/net/dense_step.h"
#include "kernels/net/dropout_step.h"
#include "kernels/net/norm_step.h"
#include "kernels/net/pointwise_step.h"
#include "kernels/net/pool_step.h"
#include "kernels/net/shape_step.h"
#include "kernels/net/torch_step.h"

namespace sluice::onnx {
namespace {

using Numbers = std::vector<std::int64_t>;

// What a batch norm multiplies by and adds, in evaluation.
struct Affine {
  at::Tensor scale, shift;
};

}  // namespace

StepWriter::StepWriter(const Net& net, Lines& lines, std::vector<std::vector<Step::Size>> sizes,
                       const std::vector<int>& steps, bool fold, const Scales* scales)
    : names(static_cast<std::size_t>(net.values)),
      net_(net),
      lines_(lines),
      sizes_(std::move(sizes)),
      scales_(scales),
      folded_(static_cast<std::size_t>(net.values)) {
  if (!fold) return;
  std::vector<int> reads(static_cast<std::size_t>(net.values));
  std::vector<const Step*> makers(static_cast<std::size_t>(net.values));
  for (const int v : net.outputs) ++reads[v];
  for (const int n : steps) {
    makers[net.steps[n]->output] = net.steps[n].get();
    for (const int v : net.steps[n]->inputs) ++reads[v];
  }
  for (const int n : steps) {
    const auto* norm = dynamic_cast<const NormActStep*>(net.steps[n].get());
    if (!norm || norm->norm != Norm::batch || reads[norm->inputs[0]] != 1) continue;
    const auto* conv = dynamic_cast<const ConvStep*>(makers[norm->inputs[0]]);
    if (conv && conv->inputs.size() == 1 && !(conv->spec.transposed && conv->spec.groups > 1))
      folded_[conv->output] = norm;
  }
}

void StepWriter::write(const Step& step) {
  lines_.enter(step.name);
  try {
    names[step.output] = written(step);
  } catch (const Error& e) {
    throw Error(e.exit, "step " + std::to_string(step.number) + " (" + step.kind() +
                            (step.name.empty() ? "" : " " + step.name) + "): " + e.what());
  }
}

std::string StepWriter::weight(int n) {
  return lines_.tensor(net_.parameters[n].name, net_.parameters[n].tensor);
}

std::string StepWriter::written(const Step& s) {
  const auto is = [&]<class T>(const T*& as) {
    return (as = dynamic_cast<const T*>(&s)) != nullptr;
  };
  const auto axis = [](std::int64_t a) { return Attributes{{"axis", a}}; };
  if (const ConvStep * c{}; is(c)) return conv(*c);
  if (const NormActStep * n{}; is(n)) return norm(*n);
  if (const PoolStep * p{}; is(p)) return pool(*p);
  if (const LinearStep * l{}; is(l)) return linear(*l);
  if (const TorchStep * t{}; is(t)) return function(*t);
  if (const ReluStep * r{}; is(r)) return lines_.add("Relu", {input(s)});
  if (const AddStep * a{}; is(a)) return lines_.add("Add", {input(s), input(s, 1)});
  if (const ConcatStep * c{}; is(c)) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < s.inputs.size(); ++i) all.push_back(input(s, i));
    return lines_.add("Concat", all, axis(1));
  }
  if (const FlattenStep * f{}; is(f)) return lines_.add("Flatten", {input(s)}, axis(1));
  if (const GlobalAvgPoolStep * g{}; is(g))
    return lines_.add("Flatten", {lines_.add("GlobalAveragePool", {input(s)})}, axis(1));
  if (const DropoutStep * d{}; is(d)) return input(s);
  if (const MaskStep * m{}; is(m)) return input(s);
  if (const NormalStep * n{}; is(n))
    return lines_.add("Add",
                      {lines_.add("Mul", {input(s), lines_.number(0)}), lines_.number(n->at_rest)});
  if (const DoubleStep * d{}; is(d)) {
    at::Tensor scales = at::full({static_cast<std::int64_t>(axes(s))}, 2.0);
    scales.narrow(0, 0, 2).fill_(1);
    return lines_.add(
        "Resize",
        {input(s), "", lines_.tensor("scales_" + std::to_string(axes(s)), scales, Type::float32)},
        {{"mode", std::string("linear")},
         {"coordinate_transformation_mode", std::string("half_pixel")}});
  }
  throw Error(Exit::usage, "has no form in ONNX");
}

// ---- convolutions and norms
// ----------------------------------------------------------------------

// gamma (x - mean) / sqrt(var + eps) + beta = scale x + shift
static Affine affine(const at::Tensor& mean, const at::Tensor& var, double eps,
                     const at::Tensor& gamma, const at::Tensor& beta) {
  const at::Tensor scale = gamma.to(at::kDouble) / (var.to(at::kDouble) + eps).sqrt();
  return {scale, beta.to(at::kDouble) - mean.to(at::kDouble) * scale};
}

// The input on the grid of its scale.
std::string StepWriter::rounded(const ConvStep& s) {
  const auto found = scales_->values.find(net_.parameters[s.weight].name);
  if (found == scales_->values.end())
    throw Error(Exit::usage, "the scales have none for it: calibrate this network");
  const auto& [by, zero] = found->second;
  std::string& made = rounded_[{input(s), by}];
  if (!made.empty()) return made;
  const std::string scale = lines_.constant(at::full({}, by, at::kFloat));
  const std::string zero_point =
      lines_.constant(at::full({}, zero, scales_->symmetric ? at::kChar : at::kByte));
  const std::string q = lines_.add("QuantizeLinear", {input(s), scale, zero_point});
  return made = lines_.add("DequantizeLinear", {q, scale, zero_point});
}

// Each output channel's weights on a grid of their own, symmetric.
std::string StepWriter::rounded_weight(const ConvStep& s, const at::Tensor& weight) {
  const std::int64_t axis = s.spec.transposed ? 1 : 0;
  const at::Tensor rows = weight.detach().transpose(0, axis).flatten(1).to(at::kDouble);
  const at::Tensor scale = std::get<0>(rows.abs().max(1)).clamp_min(1e-30) / 127;
  Numbers shape(static_cast<std::size_t>(weight.dim()), 1);
  shape[static_cast<std::size_t>(axis)] = -1;
  const at::Tensor q =
      (weight.detach().to(at::kDouble) / scale.view(shape)).round().clamp(-127, 127);
  const std::string name = net_.parameters[s.weight].name;
  return lines_.add(
      "DequantizeLinear",
      {lines_.tensor(name, q.to(at::kChar)), lines_.tensor(name + ".scale", scale.to(at::kFloat)),
       lines_.tensor(name + ".zero_point", at::zeros_like(scale, at::kChar))},
      {{"axis", axis}});
}

std::string StepWriter::conv(const ConvStep& s) {
  const ConvSpec& spec = s.spec;
  Attributes how{{"kernel_shape", spec.kernel},
                 {"strides", spec.stride},
                 {"pads", both_ends(spec.padding)},
                 {"group", spec.groups}};
  if (!spec.dilation.empty()) how.emplace_back("dilations", spec.dilation);
  if (spec.transposed) how.emplace_back("output_padding", spec.output_padding);
  const int bias = s.bias >= 0 ? s.bias : s.silent_bias;
  Lines::Names inputs{scales_ ? rounded(s) : input(s)};
  const std::string& name = net_.parameters[s.weight].name;
  const auto with_weight = [&](const at::Tensor& w) {
    inputs.push_back(scales_ ? rounded_weight(s, w) : lines_.tensor(name, w));
  };
  if (const NormActStep* norm = folded_[s.output]) {
    const Affine by = affine(buffer(norm->running_mean), buffer(norm->running_var), norm->eps,
                             gamma(*norm), beta(*norm));
    Numbers shape(spec.kernel.size() + 2, 1);
    shape[spec.transposed ? 1 : 0] = -1;
    at::Tensor shift = by.shift;
    if (bias >= 0) shift = shift + parameter(bias).to(at::kDouble) * by.scale;
    with_weight((parameter(s.weight) * by.scale.view(shape)).to(at::kFloat));
    inputs.push_back(lines_.tensor(s.name + ".bias", shift.to(at::kFloat)));
  } else {
    with_weight(parameter(s.weight));
    if (bias >= 0) inputs.push_back(weight(bias));
  }
  std::string y = lines_.add(spec.transposed ? "ConvTranspose" : "Conv", inputs, how);
  if (s.inputs.size() > 1) y = lines_.add("Add", {y, input(s, 1)});
  return y;
}

std::string StepWriter::activated(const NormActStep& s, const std::string& x) {
  if (s.slope >= 0) {  // one for all, in as many axes as x has
    const Numbers one(sizes_[0][s.inputs[0]].size() - 1, 1);
    return lines_.add("PRelu", {x, lines_.tensor(net_.parameters[s.slope].name,
                                                 parameter(s.slope).reshape(one))});
  }
  if (!s.fixed_slope) return x;
  if (*s.fixed_slope == 0) return lines_.add("Relu", {x});
  return lines_.add("LeakyRelu", {x}, {{"alpha", static_cast<float>(*s.fixed_slope)}});
}

// Of norms that learn neither, 1 and 0 for each channel.
at::Tensor StepWriter::gamma(const NormActStep& s) const {
  return s.gamma >= 0 ? parameter(s.gamma) : at::ones({sizes_[0][s.inputs[0]][1]});
}
at::Tensor StepWriter::beta(const NormActStep& s) const {
  return s.beta >= 0 ? parameter(s.beta) : at::zeros({sizes_[0][s.inputs[0]][1]});
}

// The groups side by side as channels, normalised without numbers of their own.
std::string StepWriter::group_norm(const NormActStep& s) {
  const at::Tensor one = at::ones({s.groups});
  const std::string x = input(s);
  const std::string grouped = lines_.add("Reshape", {x, lines_.ints({0, s.groups, -1})});
  std::string y = lines_.instance_norm(grouped, one, at::zeros_like(one), s.eps);
  y = lines_.add("Reshape", {y, lines_.add("Shape", {x})});
  if (s.gamma < 0) return y;
  Numbers shape(axes(s) - 1, 1);
  shape[0] = -1;
  y = lines_.add("Mul", {y, lines_.constant(parameter(s.gamma).reshape(shape))});
  return lines_.add("Add", {y, lines_.constant(parameter(s.beta).reshape(shape))});
}

std::string StepWriter::normalised(const NormActStep& s) {
  if (s.norm == Norm::none || folded_[s.inputs[0]] == &s) return input(s);
  if (s.norm == Norm::group) return group_norm(s);
  if (s.norm == Norm::instance) {
    return lines_.instance_norm(input(s), gamma(s), beta(s), s.eps);
  }
  Lines::Names inputs{input(s)};
  if (s.gamma >= 0) {
    inputs.insert(inputs.end(), {weight(s.gamma), weight(s.beta)});
  } else {
    inputs.push_back(lines_.tensor(s.name + ".weight", gamma(s)));
    inputs.push_back(lines_.tensor(s.name + ".bias", beta(s)));
  }
  for (const int b : {s.running_mean, s.running_var})
    inputs.push_back(lines_.tensor(net_.buffers[b].name, buffer(b)));
  return lines_.add("BatchNormalization", inputs, {{"epsilon", static_cast<float>(s.eps)}});
}

std::string StepWriter::norm(const NormActStep& s) {
  const std::string y = activated(s, normalised(s));
  return s.inputs.size() > 1 ? lines_.add("Add", {y, input(s, 1)}) : y;
}

// ---- the rest
// ------------------------------------------------------------------------------------

std::string StepWriter::pool(const PoolStep& s) {
  return lines_.add(
      s.max ? "MaxPool" : "AveragePool", {input(s)},
      {{"kernel_shape", s.kernel}, {"strides", s.stride}, {"pads", both_ends(s.padding)}});
}

std::string StepWriter::linear(const LinearStep& s) {
  if (axes(s) == 2) {
    Lines::Names inputs{input(s), weight(s.weight)};
    if (s.bias >= 0) inputs.push_back(weight(s.bias));
    return lines_.add("Gemm", inputs, {{"transB", std::int64_t{1}}});
  }
  const std::string w = lines_.add("Transpose", {weight(s.weight)}, {{"perm", Numbers{1, 0}}});
  const std::string y = lines_.add("MatMul", {input(s), w});
  return s.bias >= 0 ? lines_.add("Add", {y, weight(s.bias)}) : y;
}

std::string StepWriter::function(const TorchStep& s) {
  Lines::Names inputs, weights;
  std::vector<at::Tensor> values;
  for (const int v : s.inputs) inputs.push_back(names[v]);
  for (const int w : s.weights) {
    weights.push_back(weight(w));
    values.push_back(parameter(w));
  }
  Sizes sizes;
  for (const auto& record : sizes_) {
    sizes.emplace_back();
    for (const int v : s.inputs) sizes.back().push_back(record[v]);
  }
  return write_function(lines_, s, inputs, weights, values, sizes);
}

}  // namespace sluice::onnx
