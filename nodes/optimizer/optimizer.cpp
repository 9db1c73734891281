#include "nodes/optimizer/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/spans.h"
#include "engine/base/warnings.h"
#include "engine/run/device.h"
#include "engine/state/checkpoint.h"
#include "nodes/optimizer/groups.h"
#include "nodes/optimizer/layer_decay.h"

namespace sluice {
namespace {

using Moment = at::Tensor Slot::*;
constexpr std::pair<const char*, Moment> moments[] = {
    {"exp_avg.", &Slot::first}, {"exp_avg_sq.", &Slot::second}, {"max_exp_avg_sq.", &Slot::third}};

double finite(const at::Tensor& loss, const Firing& f) {
  const double value = loss.item<double>();
  if (std::isfinite(value)) return value;
  throw Error(Exit::non_finite, "the loss is " +
                                    (std::isnan(value) ? "nan" : std::to_string(value)) +
                                    " at batch " + f.stamp().str() + " (" + f.in().name + ")");
}

const at::Tensor& with_gradient(const at::Tensor& loss) {
  if (loss.requires_grad()) return loss;
  throw Error(Exit::usage, "the loss has no gradient: its model node is in no training stream");
}

// The weights moved to the batches' device with the first forward pass.
void follow(Slot& slot, const at::Tensor& weight) {
  slot.weight = weight.detach();
  for (const auto& [prefix, member] : moments)
    if ((slot.*member).defined()) slot.*member = (slot.*member).to(weight.device());
}

// Whether the checkpoint is of an optimizer that had none of these moments, and --force says to go
// on with zeros.
bool begins_anew(const State& state, const kernels::OptimRule& rule, const Slot& slot,
                 const std::pair<const char*, Moment>& moment, const std::string& node) {
  const auto& [prefix, member] = moment;
  if (!(slot.*member).defined() || member == &Slot::second) return false;
  const auto saved = state.tensors.lower_bound(prefix);
  if (saved != state.tensors.end() && saved->first.starts_with(prefix)) return false;
  const char* setting = rule.kind == kernels::OptimKind::rmsprop ? "centered" : "amsgrad";
  if (member == &Slot::first) {
    if (!rule.by_momentum()) return false;
    setting = rule.momentum != 0 ? "momentum" : "lr_schedule";
  }
  const std::string why = "nodes." + node + "." + setting +
                          ": the run had it otherwise, so there is nothing for it to go on from";
  if (!state.values.value("force", false))
    throw Error(Exit::usage, why + "; --force goes on all the same, with zeros");
  warn(why + ": it begins with zeros");
  return true;
}

void warn_where_all_is_frozen(const std::vector<std::uint64_t>& from_epoch, std::uint32_t epochs,
                              const std::string& node, const std::string& net) {
  if (std::ranges::all_of(from_epoch, [&](std::uint64_t from) { return from >= epochs; }))
    warn("nodes." + node + ".groups: network \"" + net +
         "\" stays as it is: all of its weights are frozen for all of the run's epochs");
}

}  // namespace

void Optimizer::open(const OpenContext& context) {
  const OptimizerParams& p = common();
  network_ = context.resources->network(p.net);
  rule_ = rule();
  rule_.schedule = schedule_of(p, context.epochs);
  rule_.max_norm = p.clip_grad_norm.value_or(0);
  rule_.max_value = p.clip_grad_value.value_or(0);
  if (rule_.schedule.moves_momentum() && !rule_.has_momentum())
    throw Error(Exit::usage,
                "cycle_momentum is of optimizers with a momentum or with betas: set it to false");
  rule_.growth_interval = static_cast<std::int32_t>(p.growth_interval);
  rule_.scaled =
      p.loss_scale == "dynamic" || (p.loss_scale == "auto" && network_->computes_in_half());
  ranks_ = context.ranks;
  path_ = context.node;
  if (context.division.sharded())
    sharded_ = std::make_unique<ShardedStep>(context.division, ranks_, network_, context.node);
  make_slots();
  plateau_.open(p, p.lr_schedule == "reduce_on_plateau", p.lr, lr_);
  if (!ranks_ || ranks_->world.rank == 0)
    warn_where_all_is_frozen(from_epoch_, context.epochs, path_, p.net);
  kernels::OptimState begin;
  if (rule_.scaled) begin.scale = static_cast<float>(p.init_scale);
  memory_.write(begin);
  if (ranks_)
    for (const Slot& s : slots_) {
      ranks_->use.values += s.weight.numel();
      for (const auto& [prefix, member] : moments)
        if ((s.*member).defined()) ranks_->use.moments += (s.*member).numel();
    }
  if (sharded_ && sharded_->in_parts()) ranks_->before_save.push_back([this] { unite_moments(); });
}

void Optimizer::make_slots() {
  const OptimizerParams& p = common();
  const auto weights = network_->parameters();
  if (weights.empty())
    throw Error(Exit::usage, "network \"" + p.net + "\" has no weights to train");
  std::vector<std::string> names;
  for (const auto& [name, weight] : weights) names.push_back(name);
  const auto settings = group_settings(p.groups, names, {p.lr, p.weight_decay});
  if (p.layer_decay.has_value() == p.layers.empty())
    throw Error(Exit::usage, "layer_decay and layers go together");
  const auto factors = layer_factors(p.layer_decay.value_or(1), p.layers, names);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].second.requires_grad()) continue;
    Slot s;
    s.weight = weights[i].second.detach();
    s.lr = settings[i].lr * factors[i];
    const bool decays = p.decay_norm_and_bias || s.weight.dim() > 1;
    s.weight_decay = decays ? settings[i].weight_decay : 0;
    if (sharded_ && sharded_->in_parts()) {
      s.begin = sharded_->range(slots_.size()).begin;
      s.end = sharded_->range(slots_.size()).end;
    }
    add_moments(s, rule_, first_second());
    if (settings[i].from_epoch > 0) s.since = -1;
    lr_.push_back(s.lr);
    names_.push_back(names[i]);
    slots_.push_back(std::move(s));
    from_epoch_.push_back(settings[i].from_epoch);
  }
  if (slots_.empty())
    throw Error(Exit::usage, "network \"" + p.net +
                                 "\" has no weights to train: none of its file's needs a gradient "
                                 "(requires_grad)");
}

// Whether the moment is of the slot's range, and not of all of the weight.
bool Optimizer::is_part(const Slot& slot, Moment member) const {
  return slot.is_part() && (member == &Slot::first || !rule_.second_of_tensor());
}

void Optimizer::process(Firing& f) {
  if (sharded_) return add_shard(f);
  const at::Tensor loss = with_gradient(f.in().tensor("loss"));
  std::optional<double> value;  // on a device not before that is done
  if (!f.stream()) value = finite(loss, f);
  begin_epoch(f.stamp().epoch);
  at::Tensor share = loss / static_cast<double>(common().grad_accumulation);
  if (rule_.scaled) {
    memory_.move_to(loss.device());
    share = share * memory_.loss_scale().squeeze(0);
  }
  backward_to(*network_, share);
  if (++pending_ >= common().grad_accumulation) step(f.stamp().str() + " (" + f.in().name + ")");
  if (f.stream()) f.stream()->keep(memory_.plan());
  log(f, loss.detach(), value);
  f.emit_ptr(f.ptr());
}

void Optimizer::add_shard(Firing& f) {
  begin_epoch(f.stamp().epoch);
  if (!f.is_hole()) {
    const at::Tensor loss = with_gradient(f.in().tensor("loss"));
    const double value = finite(loss, f);
    at::Tensor share = loss * sharded_->share(f.weight());
    if (rule_.scaled) {
      memory_.move_to(loss.device());
      share = share * memory_.loss_scale().squeeze(0);
    }
    sharded_->backward(share, sharded_->shard(f.stamp().index), f.weight(), value);
    f.emit_ptr(f.ptr());
  }
  if (!sharded_->ends(f.stamp().index)) return;
  const ShardedStep::Sum sum = sharded_->finish();
  if (sum.samples > 0) {
    pending_ = 1;
    step(f.stamp().str());
    log(f, {}, sum.loss);
    ++ranks_->steps_done;
  }
  if (ranks_->last_updater != path_) return;
  if (sum.wish || ranks_->has_all_steps())
    ranks_->cut();
  else if (sum.pause_wish)
    ranks_->pause();
}

std::optional<std::uint64_t> Optimizer::recordable(const Firing& f) const {
  if (common().grad_accumulation > 1 || pending_ > 0 || sharded_) return std::nullopt;
  const std::uint32_t epoch = f.stamp().epoch;
  std::uint64_t frozen = 0;
  for (const std::uint64_t from : from_epoch_) frozen += epoch < from;
  std::uint64_t key = mix(frozen);
  const auto add = [&key](double x) { key = mix(key + std::bit_cast<std::uint64_t>(x)); };
  const bool by_step = rule_.schedule.by_step;  // then the device works out the rest
  for (const auto& [lr, rate] : plateau_.rates())
    add(by_step ? rate : kernels::learning_rate(rule_.schedule, rate, epoch));
  if (!by_step) add(kernels::momentum_at(rule_.schedule, 0, epoch));
  return key;
}

void Optimizer::repeated(Firing& f, const Sample&) {
  log(f, f.in().tensor("loss"), {});
  f.emit_ptr(f.ptr());
}

// What a step of this epoch is told.
void Optimizer::begin_epoch(std::uint32_t epoch) {
  rule_.epoch = epoch;
  const auto rates = plateau_.rates();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].lr = rates.at(lr_[i]);
    if (slots_[i].since < 0 && epoch >= from_epoch_[i]) slots_[i].since = steps_;
  }
}

void Optimizer::flush(Flush& end) {
  begin_epoch(end.epoch);
  if (pending_ > 0) step("the end of epoch " + std::to_string(end.epoch));
  kernels::OptimState state = memory_.read();
  steps_ = state.step;
  require_finite(state, "epoch " + std::to_string(end.epoch));
  if (rule_.scaled) {
    end.metric("loss_scale", state.scale);
    end.metric("skipped_steps", static_cast<double>(state.skipped));
  }
  if (batches_ > 0) end.metric("loss", loss_sum_ / static_cast<double>(batches_));
  const double time = rule_.schedule.by_step ? state.time : end.epoch;
  const double lr = plateau_.rates().at(common().lr);
  end.metric("lr", kernels::learning_rate(rule_.schedule, lr, time));
  if (state.norms > 0) {
    end.metric("grad_norm", state.norm_sum / static_cast<double>(state.norms));
    state.norm_sum = 0;
    state.norms = 0;
    memory_.write(state);
  }
  loss_sum_ = 0;
  batches_ = 0;
}

void Optimizer::save(State& state) const {
  const kernels::OptimState now = memory_.read();
  state.values["steps"] = now.step;
  state.values["epoch"] = {
      {"loss_sum", loss_sum_},    {"batches", batches_},  // of a cut epoch
      {"norm_sum", now.norm_sum}, {"norms", now.norms},
      {"pending", pending_},      {"grad_accumulation", common().grad_accumulation}};
  if (pending_ > 0)
    for (const auto& [name, weight] : network_->parameters())
      if (weight.grad().defined()) state.tensors["grad." + name] = weight.grad().cpu().clone();
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (from_epoch_[i] > 0) state.values["since"][names_[i]] = slots_[i].since;
  if (rule_.kind == kernels::OptimKind::nadam) state.values["mu_product"] = now.mu_product;
  if (common().lr_schedule == "reduce_on_plateau") state.values["plateau"] = plateau_.save();
  if (rule_.scaled)
    state.values["scaler"] = {
        {"scale", now.scale}, {"growth_tracker", now.good}, {"skipped", now.skipped}};
  for (std::size_t i = 0; i < slots_.size(); ++i)
    for (const auto& [prefix, member] : moments) {
      const at::Tensor& m = slots_[i].*member;
      if (!m.defined()) continue;
      const std::string name = prefix + names_[i];
      state.tensors[name] = is_part(slots_[i], member) ? whole_.at(name) : m.cpu().clone();
    }
}

// What rank 0 saves; a rank has its ranges alone.
void Optimizer::unite_moments() {
  for (const auto& [prefix, member] : moments) {
    std::vector<float*> ranges, wholes;
    std::vector<std::pair<std::string, at::Tensor>> all;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const at::Tensor& m = slots_[i].*member;
      if (!m.defined() || !is_part(slots_[i], member)) break;
      ranges.push_back(m.data_ptr<float>());
      all.emplace_back(prefix + names_[i], at::empty_like(slots_[i].weight));
      wholes.push_back(all.back().second.data_ptr<float>());
    }
    if (all.empty()) continue;
    sharded_->spread(ranges, wholes);
    if (ranks_->world.rank == 0)
      for (auto& [name, t] : all) whole_[name] = t;
  }
}

// Those of batches whose step is to come: divided by as many as a step has here, where it had
// others.
void Optimizer::load_gradients(const State& state) {
  if (pending_ == 0) return;
  const std::int64_t now = common().grad_accumulation,
                     before = state.values["epoch"].value("grad_accumulation", now);
  for (const auto& [name, weight] : network_->parameters()) {
    const auto saved = state.tensors.find("grad." + name);
    if (saved == state.tensors.end()) continue;
    at::Tensor& gradient = weight.mutable_grad() = saved->second.to(weight.device()).clone();
    if (before != now) gradient.mul_(static_cast<double>(before) / static_cast<double>(now));
  }
}

void Optimizer::load(const State& state) {
  kernels::OptimState then = memory_.read();
  steps_ = then.step = state.values.at("steps");
  const Json since = state.values.value("since", Json::object());
  for (std::size_t i = 0; i < slots_.size(); ++i)
    slots_[i].since = since.value(names_[i], std::int64_t{0});
  then.mu_product = state.values.value("mu_product", 1.0);
  if (state.values.contains("epoch")) {
    const Json& epoch = state.values["epoch"];
    loss_sum_ = epoch.at("loss_sum");
    batches_ = epoch.at("batches");
    then.norm_sum = epoch.at("norm_sum");
    then.norms = epoch.at("norms");
    pending_ = epoch.at("pending");
  }
  load_gradients(state);
  if (state.values.contains("plateau")) plateau_.load(state.values["plateau"]);
  if (rule_.scaled && state.values.contains("scaler")) {
    const Json& scaler = state.values["scaler"];
    then.scale = scaler.at("scale");
    then.good = scaler.at("growth_tracker");
    then.skipped = scaler.at("skipped");
  }
  memory_.write(then);
  if (sharded_) sharded_->take_buffers();
  for (const auto& moment : moments) {
    if (begins_anew(state, rule_, slots_.front(), moment, path_)) continue;
    const auto& [prefix, member] = moment;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Slot& s = slots_[i];
      const at::Tensor& m = s.*member;
      if (!m.defined()) continue;
      const auto saved = state.tensors.find(prefix + names_[i]);
      if (saved == state.tensors.end() ||
          saved->second.sizes() != (is_part(s, member) ? s.weight : m).sizes())
        throw DataError("the checkpoint does not fit: " + (prefix + names_[i]));
      if (!is_part(s, member)) {
        m.copy_(saved->second);
        continue;
      }
      const at::Tensor as_it_lies = at::empty_like(s.weight).copy_(saved->second);
      m.copy_(at::from_blob(as_it_lies.data_ptr<float>() + s.begin, m.sizes(), at::kFloat));
    }
  }
}

// `value`: where it is known already.
void Optimizer::log(Firing& f, at::Tensor loss, std::optional<double> value) {
  f.log_later("loss", [this, &f, value, loss = std::move(loss)] {
    const double known = value ? *value : finite(loss, f);
    loss_sum_ += known;
    ++batches_;
    return known;
  });
}

void Optimizer::step(const std::string& at) {
  const auto weights = trained_weights(*network_);
  const double share = static_cast<double>(common().grad_accumulation) / pending_;
  const bool in_parts = sharded_ && sharded_->in_parts();
  if (in_parts && !weights.front().second.is_cpu())
    throw Error(Exit::usage, "run.shard_optimizer is for training on the host, not on a GPU");
  whole_.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    follow(slots_[i], weights[i].second);
    if (rule_.epoch < static_cast<double>(from_epoch_[i])) continue;  // frozen
    slots_[i].grad = in_parts ? sharded_->gradient(i) : weights[i].second.grad();
    if (slots_[i].grad.defined() && share != 1) slots_[i].grad.mul_(share);
  }
  if (!ranks_ || ranks_->world.rank == 0) warn_where_nothing_learns();
  const at::Device device = slots_.front().weight.device();
  const std::int64_t begun = now_ns();
  memory_.move_to(device);
  Unite unite;
  if (in_parts) unite = [this](std::vector<double>& numbers) { sharded_->unite(numbers); };
  optim_step(slots_, rule_, memory_, unite);
  if (device.is_cpu()) require_finite(memory_.read(), "batch " + at);
  if (in_parts) spread_weights();
  if (network_->settle(static_cast<std::uint32_t>(rule_.epoch)) && sharded_)
    sharded_->take_buffers();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].grad = at::Tensor();
    weights[i].second.mutable_grad() = at::Tensor();
  }
  pending_ = 0;
  if (!ranks_) return;
  ++ranks_->use.steps;
  ranks_->use.update_ns += now_ns() - begun;
}

// A loss that comes through other networks alone looks like one that trains this one.
void Optimizer::warn_where_nothing_learns() const {
  bool trains = false;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].grad.defined()) return;
    trains |= rule_.epoch >= static_cast<double>(from_epoch_[i]);
  }
  if (trains)
    warn("nodes." + path_ + ": the loss does not depend on what is trained of network \"" +
         common().net + "\", which stays as it is");
}

// What each rank has updated, to all.
void Optimizer::spread_weights() {
  std::vector<float*> ranges, wholes;
  for (const Slot& s : slots_) {
    wholes.push_back(s.weight.data_ptr<float>());
    ranges.push_back(wholes.back() + s.begin);
  }
  sharded_->spread(ranges, wholes);
}

// Without a loss scale there is nothing to lower: such a step would be missing silently.
void Optimizer::require_finite(const kernels::OptimState& state, const std::string& at) const {
  if (rule_.scaled || state.skipped == 0) return;
  std::string where;
  for (std::size_t i = 0; i < slots_.size() && where.empty(); ++i)
    if (slots_[i].grad.defined() && !at::isfinite(slots_[i].grad).all().item<bool>())
      where = " of " + names_[i];
  throw Error(Exit::non_finite,
              "the loss is finite, but the gradient" + where + " is not, at " + at);
}

}  // namespace sluice
