#include "tools/runtime/apply_network.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iostream>

#include "engine/base/diagnostic.h"
#include "engine/run/registry.h"
#include "engine/session/weights.h"
#include "engine/state/checkpoint.h"
#include "nodes/network/built_network.h"
#include "nodes/network/uncounted_outputs.h"
#include "tools/runtime/apply_files.h"

namespace sluice {
namespace {

std::string output_key(std::size_t i) { return i == 0 ? "pred" : "pred_" + std::to_string(i); }

// One network, its inputs by their keys in its order, and what it answers.
class AppliedNetwork {
 public:
  AppliedNetwork(const Json& request, const Spec& spec) : request_(request), spec_(spec) {
    Json params = request.at("params");
    if (checks() && params.contains("precision")) params["precision"] = "float32";
    network_ = Registry::global().make_network(spec.name, params);
    const auto seed = request.at("seed").get<std::int64_t>();
    network_->initialise(static_cast<std::uint64_t>(seed));
    network_->key_draws(static_cast<std::uint64_t>(seed));
    if (const Json& w = request.at("weights"); !w.is_null())
      begin_with(*network_, spec.name,
                 {w.at("file"), {}, w.at("key"), w.at("strip_prefix"), w.at("partial")}, false);
    network_->train(request.at("train"));
    for (const auto& [name, t] : network_->parameters()) parameters_[name] = t;
    read_inputs();
  }

  int run() {
    const auto targets = targets_of(request_.at("out")),
               slopes = targets_of(request_.at("out_grad"));
    const NamedTensors grads = read_grads(request_.at("grad"));
    const std::size_t count = outputs_wanted(targets, grads);
    std::vector<std::string> names;
    for (const FieldFile& t : slopes)
      if (t.key == "state")
        for (const auto& [name, parameter] : parameters_) names.push_back(name);
      else
        names.push_back(t.key);
    for (const auto& name : names) require_differentiable(name);
    if (!checks() || !names.empty() || !targets.empty())
      compute(targets, slopes, grads, names, count);
    return checks() ? check(grads, names, count) : static_cast<int>(Exit::done);
  }

 private:
  bool checks() const { return request_.at("check_grad"); }

  // Writes what is asked for.
  void compute(const std::vector<FieldFile>& targets, const std::vector<FieldFile>& slopes,
               const NamedTensors& grads, const std::vector<std::string>& names,
               std::size_t count) const {
    const at::AutoGradMode tape(!names.empty());
    const Sample input = taped(names), output = answer(input, count);
    if (!names.empty()) {
      const NamedTensors found = gradients(input, output, grads, names);
      for (const FieldFile& t : slopes)
        if (t.key == "state")
          write_safetensors(t.file, of_parameters(found));
        else
          write(t.file, found.at(t.key));
    }
    for (const FieldFile& t : targets)
      if (t.key == "state")
        write_safetensors(t.file, state());
      else
        write(t.file, output.tensor(t.key));
    if (!checks()) print(output, targets, slopes);
  }

  void read_inputs() {
    const auto sources = targets_of(request_.at("in"));
    if (const auto* built = dynamic_cast<const BuiltNetwork*>(network_.get()))
      for (const NetInput& in : built->inputs()) keys_.push_back(in.key);
    else
      for (const FieldFile& t : sources) keys_.push_back(t.key);
    if (keys_.size() == 1 && sources.size() == 1) keys_[0] = sources[0].key;  // by any key
    std::string all;
    for (const auto& key : keys_) all += (all.empty() ? "" : ", ") + key;
    for (const FieldFile& t : sources) {
      if (std::find(keys_.begin(), keys_.end(), t.key) == keys_.end())
        throw Error(Exit::usage, "--in " + t.key + ": " + spec_.name + " takes " + all);
      Field field = read_field(t.file, !is_npy(t.file));
      field.tensor = field.tensor.to(at::kFloat);
      inputs_.set(t.key, std::move(field));
    }
    for (const auto& key : keys_)
      if (!inputs_.has(key))
        throw Error(Exit::usage, "no --in " + key + "=FILE: " + spec_.name + " takes " + all);
  }

  std::size_t number_of(const std::string& option, const std::string& key) const {
    const std::size_t count = network_->output_count();
    for (std::size_t i = 0; i < count; ++i)
      if (key == output_key(i)) return i;
    throw Error(Exit::usage, option + " " + key + ": " + spec_.name + " gives pred" +
                                 (count > 1 ? ", pred_1, ... to " + output_key(count - 1) : "") +
                                 ", and state");
  }
  // What nobody asks for is not computed; where nothing is asked for, all is shown that is known to
  // be there.
  std::size_t outputs_wanted(const std::vector<FieldFile>& targets,
                             const NamedTensors& grads) const {
    std::size_t count = 1;
    bool any = !request_.at("out_grad").empty() || checks();
    for (const FieldFile& t : targets) {
      any = true;
      if (t.key != "state") count = std::max(count, number_of("--out", t.key) + 1);
    }
    for (const auto& [key, grad] : grads) count = std::max(count, number_of("--grad", key) + 1);
    const std::size_t there = network_->output_count();
    return any || there == uncounted_outputs ? count : there;
  }

  void require_differentiable(const std::string& name) const {
    if (inputs_.has(name) || parameters_.contains(name)) return;
    std::vector<std::string> known = keys_;
    for (const auto& [parameter, t] : parameters_) known.push_back(parameter);
    const std::string hint = did_you_mean(name, known);
    throw Error(Exit::usage, "--out-grad " + name + ": neither an input nor a parameter; " +
                                 (hint.empty() ? "there are " + known.front() + ", " +
                                                     known.back() + " and others"
                                               : hint));
  }

  // The inputs, those of `names` on the tape, and the parameters among them.
  Sample taped(const std::vector<std::string>& names) const {
    std::vector<std::string> inputs;
    for (const auto& name : names)
      if (inputs_.has(name)) inputs.push_back(name);
    Sample sample = with_tape(inputs_, inputs);
    for (const auto& name : names)
      if (!inputs_.has(name))
        sample.set(name, Field(parameters_.at(name), std::make_shared<const Meta>()));
    return sample;
  }
  Sample answer(const Sample& input, std::size_t count) const {
    Network::Tensors x;
    for (const auto& key : keys_) x.push_back(input.tensor(key));
    const Network::Tensors y = network_->forward(x, count);
    Sample output;
    for (std::size_t i = 0; i < y.size(); ++i) {
      Field field = inputs_.at(keys_[0]);  // with its geometry
      field.tensor = y[i];
      output.set(output_key(i), std::move(field));
    }
    return output;
  }

  // In float64, which steps compute by LibTorch's functions.
  int check(const NamedTensors& grads, std::vector<std::string> names, std::size_t count) {
    auto* built = dynamic_cast<BuiltNetwork*>(network_.get());
    if (!built)
      throw Error(Exit::usage, spec_.name + " computes in its file's precision: no --check-grad");
    for (const auto& key : keys_) {
      Field field = inputs_.at(key);
      field.tensor = field.tensor.to(at::kDouble);
      inputs_.set(key, std::move(field));
    }
    Net& net = built->net();
    net.compute = at::kDouble;
    for (auto& p : net.parameters) p.tensor.set_data(p.tensor.detach().to(at::kDouble));
    for (auto& b : net.buffers)
      if (b.tensor.is_floating_point()) b.tensor = b.tensor.to(at::kDouble);
    net.forget_copies();
    const bool all = names.empty();
    if (all) {
      for (const auto& key : keys_) names.push_back(key);
      for (const auto& [name, t] : parameters_) names.push_back(name);
    }
    NamedTensors at, analytic;
    {
      const at::AutoGradMode tape(true);
      const Sample input = taped(names);
      analytic = gradients(input, answer(input, count), grads, names);
    }
    for (const auto& name : names)
      at[name] = (inputs_.has(name) ? inputs_.tensor(name) : parameters_.at(name)).detach().clone();
    const auto loss = [&](const std::string& name, const at::Tensor& moved) {
      if (inputs_.has(name)) {
        Sample input = inputs_;
        Field field = input.at(name);
        field.tensor = moved;
        input.set(name, std::move(field));
        return weighted_sum(input, answer(input, count), grads);
      }
      parameters_.at(name).detach().copy_(moved);
      const double sum = weighted_sum(inputs_, answer(inputs_, count), grads);
      parameters_.at(name).detach().copy_(at.at(name));
      return sum;
    };
    return print_check(request_, against_differences(at, analytic, loss, all ? 20 : 500));
  }

  std::map<std::string, at::Tensor> state() const {
    std::map<std::string, at::Tensor> all;
    for (const auto& named : {network_->parameters(), network_->buffers()})
      for (const auto& [name, t] : named) all[name] = t.detach();
    return all;
  }
  NamedTensors of_parameters(const NamedTensors& found) const {
    NamedTensors all;
    for (const auto& [name, t] : found)
      if (parameters_.contains(name)) all[name] = t;
    return all;
  }
  // A NIfTI file holds one sample.
  void write(const std::string& file, const at::Tensor& t) const {
    Field field = inputs_.at(keys_[0]);
    field.tensor = t;
    if (!is_npy(file)) {
      if (t.dim() < 4 || t.size(0) != 1)
        throw Error(Exit::usage, file +
                                     ": a NIfTI file holds one sample [1, C, X, Y, Z]; this is " +
                                     c10::str(t.sizes()) + ": write .npy");
      field.tensor = t[0];
    }
    write_field(file, field);
  }

  void print(const Sample& output, const std::vector<FieldFile>& targets,
             const std::vector<FieldFile>& slopes) const {
    const bool shows = targets.empty() && slopes.empty();
    const Json fields = shows ? described({output}) : Json::array();
    if (!request_.at("json").get<bool>()) return print_fields(fields, false);
    Json files = Json::array();
    for (const auto* written : {&targets, &slopes})
      for (const FieldFile& t : *written) files.push_back({{"key", t.key}, {"file", t.file}});
    std::cout << Json{{"type", spec_.name},
                      {"params", request_.at("params")},
                      {"seed", request_.at("seed")},
                      {"files", files},
                      {"fields", fields}}
                     .dump(2, ' ', false, Json::error_handler_t::replace)
              << '\n';
  }

  const Json& request_;
  const Spec& spec_;
  std::shared_ptr<Network> network_;
  std::map<std::string, at::Tensor> parameters_;
  std::vector<std::string> keys_;  // of the inputs, in the network's order
  Sample inputs_;
};

}  // namespace

int apply_network(const Json& request, const Spec& spec) {
  return AppliedNetwork(request, spec).run();
}

}  // namespace sluice
