#include "kernels/net/layer_watch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "engine/base/diagnostic.h"
#include "engine/base/error.h"

namespace sluice {
namespace {

bool is_called(const Step& step, const std::string& layer) {
  return step.name == layer || step.name.starts_with(layer + ".");
}

bool same_extents(const Step::Size& a, const Step::Size& b) {
  return a.size() == b.size() && std::equal(a.begin() + 2, a.end(), b.begin() + 2);
}

}  // namespace

std::pair<int, int> steps_called(const Net& net, const std::string& layer, const std::string& who) {
  const auto called = [&](const auto& step) { return !layer.empty() && is_called(*step, layer); };
  const auto first = std::find_if(net.steps.begin(), net.steps.end(), called);
  if (first == net.steps.end()) {
    std::vector<std::string> known;
    for (const auto& step : net.steps)  // "a", "a.b" and "a.b.c" of a.b.c
      for (std::size_t at = 0; at != std::string::npos;)
        known.push_back(step->name.substr(0, at = step->name.find('.', at + 1)));
    const std::string hint = did_you_mean(layer, known);
    throw Error(Exit::usage, who + ": no layer is called \"" + layer + "\"" +
                                 (hint.empty() ? "" : "; " + hint) +
                                 " (`sluice dot --net` shows their names)");
  }
  const auto last = std::find_if(net.steps.rbegin(), net.steps.rend(), called);
  return {static_cast<int>(first - net.steps.begin()),
          static_cast<int>(net.steps.rend() - last) - 1};
}

int value_at(const Net& net, const std::string& layer, const std::vector<Step::Size>& of_inputs) {
  const auto& sizes = net.sizes(of_inputs);
  if (layer.empty()) {
    const auto pools = [&](const auto& step) {
      const int from = step->inputs[0];
      return from >= net.inputs && sizes[from].size() > 2 && sizes[step->output].size() == 2;
    };
    const auto last = std::find_if(net.steps.rbegin(), net.steps.rend(), pools);
    if (last == net.steps.rend())
      throw Error(Exit::usage,
                  "target_layers: no layer of this network makes an image one vector, so name one");
    return (*last)->inputs[0];
  }
  int at = steps_called(net, layer, "target_layers").second;
  int value = net.steps[at]->output;
  for (++at; at < static_cast<int>(net.steps.size()); ++at) {
    const Step& next = *net.steps[at];
    if (std::find(next.inputs.begin(), next.inputs.end(), value) == next.inputs.end()) continue;
    if (!next.name.empty() || !same_extents(sizes[next.output], sizes[value])) break;
    value = next.output;
  }
  return value;
}

LayerWatch::LayerWatch(Net& net, int value) : net_(net) {
  net.observer = [this, value](const Step& step, const Frame& f) {
    const auto copy = [](const at::Tensor& t) {
      return t.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    };
    const bool makes = step.output == value;
    const bool reads =
        std::find(step.inputs.begin(), step.inputs.end(), value) != step.inputs.end();
    const std::lock_guard lock(mutex_);
    if (f.grads.empty()) {
      if (makes) outputs_[f.first_sample] = copy(f.values[value]);
      return;
    }
    // Whole behind the last step backward that reads the value; what makes it may write over it.
    at::Tensor& seen = gradients_[f.first_sample];
    if ((reads || (makes && !seen.defined())) && f.grads[value].defined())
      seen = copy(f.grads[value]);
  };
}

at::Tensor LayerWatch::joined(const ByFirstSample& parts) {
  std::vector<at::Tensor> all;
  for (const auto& [first, part] : parts)
    all.push_back(all.empty() ? part : part.to(all[0].device()));
  return all.empty() ? at::Tensor() : at::cat(all);
}

}  // namespace sluice
