// What the optimizer nodes share: backward pass, gradient accumulation and clipping, the learning
// rate's schedule, the epoch's mean loss, saving and loading.
//
// Invariant: a node's state is its moments by parameter name, the number of steps and the loss
// scale; the learning rate is a pure function of the epoch. So a resumed run takes the same steps.
//
//   loss ──scale, backward──▶ gradients ──unscale, clip, update──▶ weights
//                             (summed over grad_accumulation batches)
//
// Mixed precision (Micikevicius et al. 2018): gradients in float16 would underflow, so the loss is
// multiplied beforehand; a step that overflowed is left out and halves the scale, as many good ones
// double it. Defaults are torch.amp.GradScaler's.
#pragma once

#include <bit>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"
#include "engine/run/device.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"
#include "kernels/optim/optim.h"

namespace sluice {

struct OptimizerParams {
  std::string net, lr_schedule = "constant", loss_scale = "auto";
  double init_scale = 65536;
  std::int64_t growth_interval = 2000;
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
      // Of Params, not of OptimizerParams: adamw's default is its own.
      .param("weight_decay", static_cast<double Params::*>(&Params::weight_decay),
             "L2 penalty (adamw: decoupled decay).")
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
      .above(0)
      .param(
          "loss_scale", &Params::loss_scale,
          "dynamic: scales the loss, and skips steps whose gradients are not finite; none; auto: "
          "dynamic where the network computes in float16.")
      .choices({"auto", "dynamic", "none"})
      .param("init_scale", &Params::init_scale, "The loss scale at first.")
      .above(0)
      .param("growth_interval", &Params::growth_interval,
             "Good steps in a row until the loss scale doubles.")
      .at_least(1)
      .updates("net")
      .takes("loss", Form::scalar)
      .any_device()
      .lane(LaneKind::step)
      .ordered()
      .reports({"loss", "lr", "loss_scale", "skipped_steps"});
}

// Of those with two moments.
struct MomentParams : OptimizerParams {
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  bool amsgrad = false;
};

template <class Params>
Spec& add_moment_params(Spec& s) {
  return add_optimizer_params<Params>(s)
      .param("betas", static_cast<std::vector<double> Params::*>(&Params::betas),
             "Decay of the first and of the second moment.")
      .range(0, 1)
      .length(2, 2)
      .param("eps", &Params::eps, "Added to the second moment's root.")
      .at_least(0)
      .param("amsgrad", &Params::amsgrad, "Divides by the largest second moment so far.");
}

inline kernels::OptimRule moments_rule(kernels::OptimKind kind, const MomentParams& p) {
  kernels::OptimRule r;
  r.kind = kind;
  r.beta1 = p.betas[0];
  r.beta2 = p.betas[1];
  r.eps = p.eps;
  r.amsgrad = p.amsgrad;
  return r;
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
    rule_ = rule();
    rule_.weight_decay = common().weight_decay;
    rule_.max_norm = common().clip_grad_norm.value_or(0);
    rule_.growth_interval = static_cast<std::int32_t>(common().growth_interval);
    rule_.scaled = common().loss_scale == "dynamic" ||
                   (common().loss_scale == "auto" && network_->computes_in_half());
    kernels::OptimState begin;
    if (rule_.scaled) begin.scale = static_cast<float>(common().init_scale);
    memory_.write(begin);
  }

  void process(Firing& f) override {
    const at::Tensor loss = f.in().tensor("loss");
    if (!loss.requires_grad())
      throw Error(Exit::usage, "the loss has no gradient: its model node is in no training stream");
    std::optional<double> value;  // on a device not before that is done
    if (!f.stream()) value = finite(loss, f);
    rule_.lr = rate(f.stamp().epoch);
    at::Tensor share = loss / static_cast<double>(common().grad_accumulation);
    if (rule_.scaled) {
      memory_.move_to(loss.device());
      share = share * memory_.loss_scale().squeeze(0);
    }
    share.backward();
    if (++pending_ == common().grad_accumulation) step(f.stamp().str() + " (" + f.in().name + ")");
    if (f.stream()) f.stream()->keep(memory_.plan());
    log(f, loss.detach(), value);
  }
  // The learning rate goes into the kernels' launches.
  std::optional<std::uint64_t> recordable(const Firing& f) const override {
    if (common().grad_accumulation > 1) return std::nullopt;
    return std::bit_cast<std::uint64_t>(rate(f.stamp().epoch));
  }
  void repeated(Firing& f, const Sample&) override { log(f, f.in().tensor("loss"), {}); }

  void flush(Flush& end) override {
    if (pending_ > 0) step("the end of epoch " + std::to_string(end.epoch));
    const kernels::OptimState state = memory_.read();
    require_finite(state, "epoch " + std::to_string(end.epoch));
    if (rule_.scaled) {
      end.metric("loss_scale", state.scale);
      end.metric("skipped_steps", static_cast<double>(state.skipped));
    }
    if (batches_ > 0) end.metric("loss", loss_sum_ / static_cast<double>(batches_));
    end.metric("lr", rate(end.epoch));
    loss_sum_ = 0;
    batches_ = 0;
  }

  void save(State& state) const override {
    const kernels::OptimState now = memory_.read();
    state.values["steps"] = now.step;
    if (rule_.scaled)
      state.values["scaler"] = {
          {"scale", now.scale}, {"growth_tracker", now.good}, {"skipped", now.skipped}};
    for (std::size_t i = 0; i < slots_.size(); ++i)
      for (const auto& [prefix, member] : moments())
        if ((slots_[i].*member).defined())
          state.tensors[prefix + names_[i]] = (slots_[i].*member).cpu().clone();
  }
  void load(const State& state) override {
    kernels::OptimState then = memory_.read();
    then.step = state.values.at("steps");
    if (rule_.scaled && state.values.contains("scaler")) {
      const Json& scaler = state.values["scaler"];
      then.scale = scaler.at("scale");
      then.good = scaler.at("growth_tracker");
      then.skipped = scaler.at("skipped");
    }
    memory_.write(then);
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
  // What is its own: kind, momentum or betas, and so on.
  virtual kernels::OptimRule rule() const = 0;

 private:
  using Moment = at::Tensor Slot::*;
  static std::vector<std::pair<std::string, Moment>> moments() {
    return {{"exp_avg.", &Slot::first},
            {"exp_avg_sq.", &Slot::second},
            {"max_exp_avg_sq.", &Slot::largest}};
  }

  // `value`: where it is known already.
  void log(Firing& f, at::Tensor loss, std::optional<double> value) {
    f.log_later("loss", [this, &f, value, loss = std::move(loss)] {
      const double known = value ? *value : finite(loss, f);
      loss_sum_ += known;
      ++batches_;
      return known;
    });
  }

  static double finite(const at::Tensor& loss, const Firing& f) {
    const double value = loss.item<double>();
    if (std::isfinite(value)) return value;
    throw Error(Exit::non_finite, "the loss is " + std::to_string(value) + " at batch " +
                                      f.stamp().str() + " (" + f.in().name + ")");
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

  void step(const std::string& at) {
    const auto weights = network_->parameters();
    const double share = static_cast<double>(common().grad_accumulation) / pending_;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      follow(slots_[i], weights[i].second);
      slots_[i].grad = weights[i].second.grad();
      if (slots_[i].grad.defined() && share != 1) slots_[i].grad.mul_(share);
    }
    const at::Device device = slots_.front().weight.device();
    memory_.move_to(device);
    optim_step(slots_, rule_, memory_);
    if (device.is_cpu()) require_finite(memory_.read(), "batch " + at);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].grad = at::Tensor();
      weights[i].second.mutable_grad() = at::Tensor();
    }
    pending_ = 0;
  }

  // Without a loss scale there is nothing to lower: such a step would be missing silently.
  void require_finite(const kernels::OptimState& state, const std::string& at) const {
    if (rule_.scaled || state.skipped == 0) return;
    std::string where;
    for (std::size_t i = 0; i < slots_.size() && where.empty(); ++i)
      if (slots_[i].grad.defined() && !at::isfinite(slots_[i].grad).all().item<bool>())
        where = " of " + names_[i];
    throw Error(Exit::non_finite,
                "the loss is finite, but the gradient" + where + " is not, at " + at);
  }

  // The weights moved to the batches' device with the first forward pass.
  static void follow(Slot& slot, const at::Tensor& weight) {
    slot.weight = weight.detach();
    for (const auto& [prefix, member] : moments())
      if ((slot.*member).defined()) slot.*member = (slot.*member).to(weight.device());
  }

  std::shared_ptr<Network> network_;
  std::vector<std::string> names_;
  std::vector<Slot> slots_;
  std::uint32_t epochs_ = 1;
  kernels::OptimRule rule_;
  OptimMemory memory_;
  std::int64_t pending_ = 0, batches_ = 0;
  double loss_sum_ = 0;
};

}  // namespace sluice
