// What the optimizer nodes share: backward pass, gradient accumulation and clipping, the learning
// rate's schedule, the epoch's mean loss, saving and loading.
//
// Invariant: a node's state is its moments by parameter name and the number of steps; the learning
// rate is a pure function of the epoch. So a resumed run takes the same steps.
//
//   loss ──backward──▶ gradients ──(every grad_accumulation-th batch) clip, update──▶ weights
#pragma once

#include <cmath>
#include <numbers>

#include "engine/checkpoint.h"
#include "engine/error.h"
#include "engine/registry.h"
#include "engine/resource.h"
#include "engine/sample.h"
#include "kernels/optim.h"

namespace sluice {

struct OptimizerParams {
  std::string net, lr_schedule = "constant";
  double lr = 1e-3, eta_min = 0, gamma = 0.1, weight_decay = 0;
  std::int64_t step_size = 1, grad_accumulation = 1;
  std::optional<double> clip_grad_norm;
};

template <class Params>
Spec& add_optimizer_params(Spec& s) {
  return s.in("sample", "A sample with the scalar field \"loss\".")
      .param("net", &Params::net, "The network's name in \"models\".")
      .required()
      .param("lr", &Params::lr, "Learning rate at the first epoch.")
      .at_least(0)
      .param("weight_decay", &Params::weight_decay, "L2 penalty (adamw: decoupled decay).")
      .at_least(0)
      .param("lr_schedule", &Params::lr_schedule,
             "By epoch e: constant; cosine: eta_min + (lr - eta_min)(1 + cos(pi e / epochs)) / 2; "
             "step: lr gamma^floor(e / step_size).")
      .choices({"constant", "cosine", "step"})
      .param("eta_min", &Params::eta_min, "The cosine's lower end.")
      .at_least(0)
      .param("step_size", &Params::step_size, "Epochs between the steps of \"step\".")
      .at_least(1)
      .param("gamma", &Params::gamma, "Factor of each step of \"step\".")
      .at_least(0)
      .param("grad_accumulation", &Params::grad_accumulation,
             "Batches whose mean gradient makes one step; an epoch's rest makes a step too.")
      .at_least(1)
      .param("clip_grad_norm", &Params::clip_grad_norm,
             "Scales the gradient down to this norm over all parameters; null: never.")
      .at_least(0)
      .updates("net")
      .takes("loss", Form::scalar)
      .any_device()
      .lane(LaneKind::step)
      .ordered()
      .reports({"loss", "lr"});
}

class Optimizer : public Node {
 public:
  void open(const OpenContext& context) override {
    epochs_ = context.epochs;
    network_ = context.resources->network(common().net);
    for (const auto& [name, weight] : network_->parameters()) {
      names_.push_back(name);
      slots_.push_back({});
      slots_.back().weight = weight.detach();
      make_moments(slots_.back());
    }
  }

  void process(Firing& f) override {
    const at::Tensor loss = f.in().tensor("loss");
    if (!loss.requires_grad())
      throw Error(Exit::usage, "the loss has no gradient: its model node is in no training stream");
    const double value = loss.item<double>();
    if (!std::isfinite(value))
      throw Error(Exit::non_finite, "the loss is " + std::to_string(value) + " at batch " +
                                        f.stamp().str() + " (" + f.in().name + ")");
    rate_ = rate(f.stamp().epoch);
    (loss / static_cast<double>(common().grad_accumulation)).backward();
    if (++pending_ == common().grad_accumulation) step();
    f.log("loss", value);
    loss_sum_ += value;
    ++batches_;
  }

  void flush(Flush& end) override {
    if (pending_ > 0) step();
    if (batches_ > 0) end.metric("loss", loss_sum_ / static_cast<double>(batches_));
    end.metric("lr", rate(end.epoch));
    loss_sum_ = 0;
    batches_ = 0;
  }

  void save(State& state) const override {
    state.values["steps"] = steps_;
    for (std::size_t i = 0; i < slots_.size(); ++i)
      for (const auto& [prefix, member] : moments())
        if ((slots_[i].*member).defined())
          state.tensors[prefix + names_[i]] = (slots_[i].*member).cpu().clone();
  }
  void load(const State& state) override {
    steps_ = state.values.at("steps");
    for (std::size_t i = 0; i < slots_.size(); ++i)
      for (const auto& [prefix, member] : moments()) {
        if (!(slots_[i].*member).defined()) continue;
        const auto saved = state.tensors.find(prefix + names_[i]);
        if (saved == state.tensors.end() || saved->second.sizes() != (slots_[i].*member).sizes())
          throw DataError("the checkpoint does not fit: " + prefix + names_[i]);
        (slots_[i].*member).copy_(saved->second);
      }
  }

 protected:
  virtual const OptimizerParams& common() const = 0;
  virtual void make_moments(Slot& slot) const = 0;
  virtual void update(std::vector<Slot>& slots, double lr, std::int64_t step) const = 0;

 private:
  using Moment = at::Tensor Slot::*;
  static std::vector<std::pair<std::string, Moment>> moments() {
    return {{"exp_avg.", &Slot::first},
            {"exp_avg_sq.", &Slot::second},
            {"max_exp_avg_sq.", &Slot::largest}};
  }

  double rate(std::uint32_t epoch) const {
    const OptimizerParams& p = common();
    if (p.lr_schedule == "cosine")
      return p.eta_min +
             (p.lr - p.eta_min) * (1 + std::cos(std::numbers::pi * epoch / epochs_)) / 2;
    if (p.lr_schedule == "step")
      return p.lr * std::pow(p.gamma, epoch / static_cast<std::uint32_t>(p.step_size));
    return p.lr;
  }

  void step() {
    const auto weights = network_->parameters();
    const double share = static_cast<double>(common().grad_accumulation) / pending_;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      follow(slots_[i], weights[i].second);
      slots_[i].grad = weights[i].second.grad();
      if (slots_[i].grad.defined() && share != 1) slots_[i].grad.mul_(share);
    }
    if (common().clip_grad_norm) clip(*common().clip_grad_norm);
    update(slots_, rate_, ++steps_);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].grad = at::Tensor();
      weights[i].second.mutable_grad() = at::Tensor();
    }
    pending_ = 0;
  }

  // The weights moved to the batches' device with the first forward pass.
  static void follow(Slot& slot, const at::Tensor& weight) {
    slot.weight = weight.detach();
    for (const auto& [prefix, member] : moments())
      if ((slot.*member).defined()) slot.*member = (slot.*member).to(weight.device());
  }

  void clip(double limit) {
    const double scale = limit / (grad_norm(slots_) + 1e-6);  // torch's clip_grad_norm_
    if (scale >= 1) return;
    for (auto& s : slots_)
      if (s.grad.defined()) s.grad.mul_(scale);
  }

  std::shared_ptr<Network> network_;
  std::vector<std::string> names_;
  std::vector<Slot> slots_;
  std::uint32_t epochs_ = 1;
  std::int64_t steps_ = 0, pending_ = 0, batches_ = 0;
  double rate_ = 0, loss_sum_ = 0;
};

}  // namespace sluice
