// What the optimizer nodes share: backward pass, gradient accumulation and clipping, groups of
// parameters, the learning rate's schedule, the epoch's mean loss, saving and loading.
//
// Invariant: a node's state is its moments by parameter name, the number of steps (and of those
// before a frozen parameter began, whose corrections count its own, as torch's), the loss scale and
// what a plateau's rule has seen; the learning rate is a pure function of them and the epoch. So a
// resumed run takes the same steps.
//
//   loss ──scale, backward──▶ gradients ──unscale, clip, update──▶ weights
//                             (summed over grad_accumulation batches, or over shards)
//
// Mixed precision (Micikevicius et al. 2018): gradients in float16 would underflow, so the loss is
// multiplied beforehand; a step that overflowed is left out and halves the scale, as many good ones
// double it. Defaults are torch.amp.GradScaler's.
#pragma once

#include <map>

#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"
#include "kernels/optim/optim.h"
#include "nodes/optimizer/plateau.h"
#include "nodes/optimizer/schedule.h"
#include "nodes/optimizer/sharded_step.h"

namespace sluice {

struct OptimizerParams : PlateauParams {
  std::string net, loss_scale = "auto";
  double init_scale = 65536;
  std::int64_t growth_interval = 2000;
  double lr = 1e-3, weight_decay = 0;
  bool decay_norm_and_bias = true;
  std::vector<Json> groups;
  std::optional<double> layer_decay;
  std::vector<std::string> layers;
  std::int64_t grad_accumulation = 1;
  std::optional<double> clip_grad_norm, clip_grad_value;
};

template <class Params>
Spec& add_optimizer_params(Spec& s) {
  s.in("sample", "A sample with the scalar field \"loss\".")
      .out("sample", "The same, when the weights are updated.")
      .param("net", static_cast<std::string Params::*>(&Params::net),
             "The network's name in \"models\".")
      .required()
      .param("lr", static_cast<double Params::*>(&Params::lr), "Learning rate before the schedule.")
      .at_least(0)
      // Of Params, not of OptimizerParams: adamw's default is its own.
      .param("weight_decay", static_cast<double Params::*>(&Params::weight_decay),
             "L2 penalty (adamw, lion, lamb: decoupled decay).")
      .at_least(0)
      .param("decay_norm_and_bias", &OptimizerParams::decay_norm_and_bias,
             "false: no weight decay of parameters of one axis (norms, biases).")
      .param(
          "groups", &OptimizerParams::groups,
          "Parameters that are treated in another way: {\"match\": a regular expression found in "
          "their names, \"lr\" or \"lr_scale\", \"weight_decay\", \"frozen\": true or "
          "\"from_epoch\": trained from this epoch on}.")
      .param("layer_decay", &OptimizerParams::layer_decay,
             "Each layer's rate is so many times that of the layer behind it; null: one rate.")
      .range(0, 1)
      .param("layers", &OptimizerParams::layers,
             "layer_decay's layers from the input to the output: regular expressions found in "
             "parameters' names; \"blocks\\\\.(\\\\d+)\": each number is a layer. What none is "
             "found in is behind them all.");
  return add_plateau_params(add_schedule_params(s))
      .param("grad_accumulation", &OptimizerParams::grad_accumulation,
             "Batches whose mean gradient makes one step; an epoch's rest makes a step too.")
      .at_least(1)
      .param("clip_grad_norm", &OptimizerParams::clip_grad_norm,
             "Scales the gradient down to this norm over all parameters; null: never.")
      .above(0)
      .param("clip_grad_value", &OptimizerParams::clip_grad_value,
             "Bounds each number of the gradient, after that; null: never.")
      .above(0)
      .param(
          "loss_scale", &OptimizerParams::loss_scale,
          "dynamic: scales the loss, and skips steps whose gradients are not finite; none; auto: "
          "dynamic where the network computes in float16.")
      .choices({"auto", "dynamic", "none"})
      .param("init_scale", &OptimizerParams::init_scale, "The loss scale at first.")
      .above(0)
      .param("growth_interval", &OptimizerParams::growth_interval,
             "Good steps in a row until the loss scale doubles.")
      .at_least(1)
      .updates("net")
      .watches("metric")
      .passes()
      .takes("loss", Form::scalar)
      .any_device()
      .lane(LaneKind::step)
      .ordered()
      .reports({"loss", "lr", "grad_norm", "loss_scale", "skipped_steps"});
}

// Of those with two moments.
struct MomentParams : OptimizerParams {
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
};

template <class Params>
Spec& add_moment_params(Spec& s) {
  return add_optimizer_params<Params>(s)
      .param("betas", static_cast<std::vector<double> Params::*>(&Params::betas),
             "Decay of the first and of the second moment.")
      .range(0, 1)
      .length(2, 2)
      .param("eps", static_cast<double Params::*>(&Params::eps),
             "Added to the second moment's root.")
      .at_least(0);
}

inline kernels::OptimRule moments_rule(kernels::OptimKind kind, const MomentParams& p) {
  kernels::OptimRule r;
  r.kind = kind;
  r.beta1 = p.betas[0];
  r.beta2 = p.betas[1];
  r.eps = p.eps;
  return r;
}

class Optimizer : public Node {
 public:
  void open(const OpenContext& context) override;
  void process(Firing& f) override;
  // The learning rate of a schedule by epochs goes into the kernels' launches.
  std::optional<std::uint64_t> recordable(const Firing& f) const override;
  void repeated(Firing& f, const Sample&) override;
  void observe(const Observation& o) override { plateau_.observe(o); }
  void flush(Flush& end) override;
  void save(State& state) const override;
  void load(const State& state) override;

 protected:
  virtual const OptimizerParams& common() const = 0;
  // What is its own: kind, momentum or betas, and so on.
  virtual kernels::OptimRule rule() const = 0;
  // What the second moments begin with.
  virtual double first_second() const { return 0; }

 private:
  void make_slots();
  bool is_part(const Slot& slot, at::Tensor Slot::*member) const;
  void unite_moments();
  void spread_weights();
  void load_gradients(const State& state);
  void add_shard(Firing& f);
  void begin_epoch(std::uint32_t epoch);
  void log(Firing& f, at::Tensor loss, std::optional<double> value);
  void step(const std::string& at);
  void warn_where_nothing_learns() const;
  void require_finite(const kernels::OptimState& state, const std::string& at) const;

  std::shared_ptr<Network> network_;
  std::shared_ptr<Ranks> ranks_;
  std::string path_;                      // of the node
  std::unique_ptr<ShardedStep> sharded_;  // null: a batch is computed as a whole
  std::vector<std::string> names_;        // by slot, as trained_weights()
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> from_epoch_;    // by slot: when it begins to be trained
  std::vector<double> lr_;                   // by slot: before the schedule and a plateau's rule
  std::map<std::string, at::Tensor> whole_;  // moments of all ranks, while rank 0 saves
  kernels::OptimRule rule_;
  OptimMemory memory_;
  Plateau plateau_;
  std::int64_t steps_ = 0;  // taken before this epoch; within it only the device may know
  std::int64_t pending_ = 0, batches_ = 0;
  double loss_sum_ = 0;
};

}  // namespace sluice
