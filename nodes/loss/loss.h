// What the loss nodes share: fields, several outputs of a network, and the firing itself.
//
// Invariant: a loss reads fields of a batch and adds one scalar field; the sample keeps its other
// fields. A label that is no class stops the sample, not the arithmetic; on a device, which is not
// waited for, it counts for nothing and ends the run when it is found.
#pragma once

#include <ATen/Functions.h>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"

namespace sluice {

struct LossParams {
  std::vector<std::string> key{"pred"};
  std::string label_key = "label", output_key = "loss";
  std::optional<std::vector<double>> head_weights;
  std::optional<std::string> weight_mode;
};

// What every loss node gives, and where it runs.
inline Spec& give_loss(Spec& s) {
  return s.gives("@output_key", Form::scalar)
      .dtype("float32")
      .any_device()
      .differentiable()
      .lane(LaneKind::step);
}

// `fields`: what `key` names. Declares all but the label. The casts here make defaults those of
// Params, which may set others than LossParams does.
template <class Params>
Spec& add_loss_params(Spec& s, const std::string& fields, Form form, int least = 1) {
  s.in("sample")
      .out("sample")
      .param("key", static_cast<std::vector<std::string> Params::*>(&Params::key),
             fields + " A list: the outputs of a deeply supervised network, finest first.")
      .length(1)
      .param("head_weights", &Params::head_weights,
             "Weight of each output of several, or one for all; null: 1, 1/2, 1/4, ... divided by "
             "their sum.")
      .per("key")
      .param(
          "weight_mode", &Params::weight_mode,
          "Weights as MONAI's DeepSupervisionLoss has them: same: 1 each; exp: 1, 1/2, 1/4, ..., "
          "at least 1/16; two: 1, then 1/2 each.")
      .choices({"same", "exp", "two"})
      .exclusive("head_weights", "weight_mode")
      .param("output_key", &Params::output_key, "Field for the loss.")
      .takes("@key", form, least);
  return give_loss(s);
}

template <class Params>
Spec& add_label_key(Spec& s, std::string text) {
  return s.param("label_key", static_cast<std::string Params::*>(&Params::label_key),
                 std::move(text));
}

// Adds "none" to the choices of the parameter `reduction`: the loss is a map then, for a node
// behind it to add up.
inline Spec& add_no_reduction(Spec& s) {
  for (ParamSpec& param : s.params)
    if (param.name == "reduction") {
      param.choices.emplace_back("none");
      param.doc += " none: the loss is the map of values.";
    }
  return s.gives("@output_key", Form::any).dtype("float32").when("reduction", "none");
}

// What a loss computes in: float64 of an output that is held against differences.
inline at::ScalarType float_type(const at::Tensor& pred) {
  return pred.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// The firing's sample with a loss in a field of its own.
inline void emit_loss(Firing& f, const std::string& key, at::Tensor loss) {
  Sample out = f.in();
  out.set(key, Field(std::move(loss), std::make_shared<const Meta>()));
  f.emit(std::move(out));
}

class Loss : public Node {
 public:
  void process(Firing& f) final {
    prepare(f);
    const auto all = heads(f);
    emit(f, all.size() == 1 ? loss(all[0], f) : weighted_sum(all, f));
  }
  // A device may record it (recorded_step.h) unless classes have weights: LibTorch's operations
  // take these from the host at each step.
  std::optional<std::uint64_t> recordable(const Firing&) const final {
    return weighted() || on_host() ? std::nullopt : std::optional<std::uint64_t>(0);
  }
  void repeated(Firing& f, const Sample& made) final {
    heads(f);
    emit(f, made.tensor(common().output_key));
  }

 protected:
  virtual const LossParams& common() const = 0;
  // A scalar of one output.
  virtual at::Tensor loss(const at::Tensor& pred, const Firing& f) const = 0;
  // Of a loss that changes as training goes on; it is on_host() as well.
  virtual void prepare(const Firing& f) { (void)f; }
  // Refuses what does not fit; values are looked at when the device is done.
  virtual void check(const at::Tensor& pred, Firing& f) const { (void)pred, (void)f; }
  virtual bool weighted() const { return false; }
  // Whether part of the work is the host's: a device that records it would not repeat that.
  virtual bool on_host() const { return false; }
  // A field of the truth on the grid of `pred`: that of a coarser output is the nearest voxel's.
  // [N, C, ...] like the output, or [N, ...] without channels.
  at::Tensor on_grid(const at::Tensor& pred, const Sample& s, const std::string& key) const {
    const at::Tensor& given = s.tensor(key);
    const bool bare = given.dim() + 1 == pred.dim();
    if (common().key.size() == 1 || pred.dim() < 3 || pred.dim() > 5 ||
        (!bare && given.dim() != pred.dim()))
      return given;
    const auto extents = pred.sizes().slice(2);
    at::Tensor x = bare ? given.unsqueeze(1) : given;
    if (x.sizes().slice(2) == extents) return given;
    if (!x.is_floating_point() && x.scalar_type() != at::kByte) x = x.to(at::kFloat);
    x = extents.size() == 1   ? at::_upsample_nearest_exact1d(x, extents)
        : extents.size() == 2 ? at::_upsample_nearest_exact2d(x, extents)
                              : at::_upsample_nearest_exact3d(x, extents);
    return (bare ? x.squeeze(1) : x).to(given.scalar_type());
  }
  // Whether a field holds several outputs, [N, outputs, C, ...].
  virtual bool stacked(const at::Tensor& pred, const Sample& s) const {
    (void)pred, (void)s;
    return false;
  }

  // One for each output, or one for all.
  static void require_weights(const LossParams& p, std::size_t outputs) {
    if (const auto& given = p.head_weights; given && given->size() != 1 && given->size() != outputs)
      throw Error(Exit::usage, "head_weights has " + std::to_string(given->size()) +
                                   " values for " + std::to_string(outputs) + " outputs");
  }

 private:
  std::vector<at::Tensor> heads(Firing& f) const {
    std::vector<at::Tensor> all;
    for (const auto& key : common().key) {
      const at::Tensor& pred = f.in().tensor(key);
      if (!stacked(pred, f.in()))
        all.push_back(pred);
      else
        for (at::Tensor& head : pred.unbind(1)) all.push_back(std::move(head));
    }
    if (all.size() > 1) require_weights(common(), all.size());
    for (const at::Tensor& pred : all) check(pred, f);
    return all;
  }

  // Of output i of n.
  double head_weight(std::size_t i, double n) const {
    const LossParams& p = common();
    const double halved = std::exp2(-static_cast<double>(i));
    if (p.head_weights) return (*p.head_weights)[p.head_weights->size() == 1 ? 0 : i];
    if (!p.weight_mode) return halved / (2 - std::exp2(1 - n));
    if (p.weight_mode == "exp") return std::max(halved, 0.0625);
    return i == 0 || p.weight_mode == "same" ? 1 : 0.5;
  }

  at::Tensor weighted_sum(const std::vector<at::Tensor>& all, const Firing& f) const {
    const double n = static_cast<double>(all.size());
    at::Tensor sum;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const at::Tensor part = loss(all[i], f) * head_weight(i, n);
      if (part.dim() > 0)
        throw Error(Exit::usage,
                    "reduction \"none\" is for one output: maps of several have no sum");
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

  void emit(Firing& f, at::Tensor loss) const {
    emit_loss(f, common().output_key, std::move(loss));
  }
};

// With parameters P, which begin with LossParams.
template <class P>
class LossOf : public Loss {
 public:
  using Params = P;
  P p;

  // By p and not by common(): inlined into a template of a file's own type, GCC 12 takes that call
  // for one that never comes, and leaves the whole function out.
  void open(const OpenContext&) override {
    if (p.key.size() > 1) this->require_weights(p, p.key.size());
  }

 protected:
  const LossParams& common() const final { return p; }
};

// The file of member n of a batched field, whole: of many data sets each case has a folder, and its
// label the same name. The batch's own name where it is not known.
inline std::string member_name(const Sample& batch, const Field& field, std::int64_t n) {
  const auto i = static_cast<std::size_t>(n);
  if (i < field.meta.size() && !field.meta[i]->path.empty()) return field.meta[i]->path;
  return batch.name + " (member " + std::to_string(n) + ")";
}

inline DataError bad_label(const Sample& s, const Field& label, std::int64_t member,
                           const std::string& value, std::int64_t classes) {
  return DataError("label value " + value + " in " + member_name(s, label, member) +
                   "; the network has classes 0 to " + std::to_string(classes - 1));
}

}  // namespace sluice
