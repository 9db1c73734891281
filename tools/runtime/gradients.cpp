#include "tools/runtime/gradients.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "engine/base/error.h"

namespace sluice {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "none" : text;
}

std::string shape_text(const at::Tensor& t) {
  std::string text;
  for (const auto n : t.sizes()) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

// The outputs that the node computed: what came in is handed on as it is.
NamedTensors computed(const Sample& input, const Sample& output) {
  NamedTensors found;
  for (const auto& [key, field] : output.fields()) {
    if (!field.tensor.defined() || !field.tensor.is_floating_point()) continue;
    if (input.has(key) && input.at(key).tensor.is_same(field.tensor)) continue;
    found[key] = field.tensor;
  }
  return found;
}

// The gradient of each output that L depends on.
NamedTensors weights(const NamedTensors& outputs, const NamedTensors& grads) {
  std::vector<std::string> names;
  for (const auto& [key, t] : outputs) names.push_back(key);
  if (grads.empty()) {
    if (outputs.size() != 1 || outputs.begin()->second.numel() != 1)
      throw Error(Exit::usage,
                  "give the gradients of what comes out: --grad OUT=FILE for " + joined(names));
    return {{names[0], at::ones_like(outputs.begin()->second)}};
  }
  NamedTensors found;
  for (const auto& [key, grad] : grads) {
    const auto out = outputs.find(key);
    if (out == outputs.end())
      throw Error(Exit::usage, "--grad " + key + ": no such output; there are " + joined(names));
    if (grad.sizes() != out->second.sizes())
      throw Error(Exit::usage, "--grad " + key + " has shape " + shape_text(grad) +
                                   "; the output has " + shape_text(out->second));
    found[key] = grad.to(out->second.scalar_type());
  }
  return found;
}

}  // namespace

std::vector<std::string> differentiable(const Sample& input) {
  std::vector<std::string> names;
  for (const auto& [key, field] : input.fields())
    if (field.tensor.defined() && field.tensor.is_floating_point()) names.push_back(key);
  return names;
}

Sample with_tape(const Sample& input, const std::vector<std::string>& names) {
  Sample out = input;
  const auto known = differentiable(input);
  for (const auto& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(Exit::usage, "--out-grad " + name +
                                   ": no field of floating-point numbers that --in gives; there "
                                   "are " +
                                   joined(known));
    Field field = input.at(name);
    field.tensor = field.tensor.detach().clone().requires_grad_();
    out.set(name, std::move(field));
  }
  return out;
}

NamedTensors gradients(const Sample& input, const Sample& output, const NamedTensors& grads,
                       const std::vector<std::string>& names,
                       const std::vector<std::string>& needed) {
  const NamedTensors outputs = computed(input, output), weight = weights(outputs, grads);
  if (std::none_of(outputs.begin(), outputs.end(),
                   [](const auto& o) { return o.second.requires_grad(); }))
    throw Error(Exit::usage, "nothing that comes out has a gradient to " + joined(names));
  std::vector<at::Tensor> roots, given, leaves;
  for (const auto& [key, grad] : weight) {
    if (!outputs.at(key).requires_grad()) continue;
    roots.push_back(outputs.at(key));
    given.push_back(grad);
  }
  for (const auto& name : names) leaves.push_back(input.tensor(name));
  std::vector<at::Tensor> found(names.size());
  if (!roots.empty())
    found = torch::autograd::grad(roots, leaves, given, /*retain_graph=*/false,
                                  /*create_graph=*/false, /*allow_unused=*/true);
  NamedTensors results;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!found[i].defined() && std::find(needed.begin(), needed.end(), names[i]) != needed.end())
      throw Error(Exit::usage, "--out-grad " + names[i] + ": a parameter that is not trained");
    results[names[i]] = found[i].defined() ? found[i] : at::zeros_like(leaves[i]);
  }
  return results;
}

std::map<std::string, double> check_gradients(const std::function<Sample(const Sample&)>& fire,
                                              const Sample& given, const NamedTensors& grads,
                                              const std::vector<std::string>& names,
                                              std::int64_t most) {
  Sample input = given;
  for (const auto& name : differentiable(given)) {
    Field field = given.at(name);
    field.tensor = field.tensor.to(at::kDouble);
    input.set(name, std::move(field));
  }
  const Sample taped = with_tape(input, names);
  const NamedTensors analytic = gradients(taped, fire(taped), grads, names);
  const auto loss = [&](const std::string& name, const at::Tensor& value) {
    const at::NoGradGuard no_grad;
    Sample moved = input;
    Field field = input.at(name);
    field.tensor = value;
    moved.set(name, std::move(field));
    return weighted_sum(moved, fire(moved), grads);
  };
  NamedTensors at;
  for (const auto& name : names) at[name] = input.tensor(name);
  return against_differences(at, analytic, loss, most);
}

std::map<std::string, double> against_differences(
    const NamedTensors& at, const NamedTensors& analytic,
    const std::function<double(const std::string&, const at::Tensor&)>& loss, std::int64_t most) {
  std::map<std::string, double> worst;
  for (const auto& [name, x] : at) {
    const at::Tensor grad = analytic.at(name).to(at::kDouble).reshape(-1);
    const std::int64_t n = x.numel(), step = std::max<std::int64_t>(1, n / most);
    double difference = 0, scale = grad.abs().max().item<double>();
    for (std::int64_t i = 0; i < n; i += step) {
      const at::Tensor moved = x.contiguous().clone();
      double& value = moved.data_ptr<double>()[i];
      const double h = 1e-5 * std::max(1.0, std::abs(value)), middle = value;
      value = middle + h;
      const double up = loss(name, moved);
      value = middle - h;
      const double numeric = (up - loss(name, moved)) / (2 * h);
      difference = std::max(difference, std::abs(numeric - grad[i].item<double>()));
      scale = std::max(scale, std::abs(numeric));
    }
    worst[name] = scale > 0 ? difference / scale : 0;
  }
  return worst;
}

double weighted_sum(const Sample& input, const Sample& output, const NamedTensors& grads) {
  const NamedTensors outputs = computed(input, output);
  double sum = 0;
  for (const auto& [key, grad] : weights(outputs, grads))
    sum += (outputs.at(key).to(at::kDouble) * grad).sum().item<double>();
  return sum;
}

}  // namespace sluice
