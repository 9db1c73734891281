// What the loss nodes share: their parameters and the firing itself.
//
// Invariant: a loss reads two fields of a batch and adds the scalar field "loss"; the sample keeps
// its other fields. A label that is no class stops the sample, not the arithmetic; on a device,
// which is not waited for, it counts for nothing and ends the run when it is found.
#pragma once

#include <filesystem>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/sample.h"
#include "kernels/loss/dice_ce.h"

namespace sluice {

struct DiceParams {
  std::string key = "pred", label_key = "label";
  bool include_background = true, to_onehot_y = false, sigmoid = false, softmax = false;
  bool squared_pred = false, jaccard = false, batch = false;
  std::string reduction = "mean";
  double smooth_nr = 1e-5, smooth_dr = 1e-5;
  std::optional<std::vector<double>> weight;
};

template <class Params>
Spec& add_dice_params(Spec& s) {
  return s.in("sample")
      .out("sample")
      .param("key", &Params::key, "Field with the network's output, logits [N, C, ...].")
      .param("label_key", &Params::label_key,
             "Field with the truth, [N, 1, ...] class indices or [N, C, ...].")
      .param("include_background", &Params::include_background, "Dice counts class 0 too.")
      .param("to_onehot_y", &Params::to_onehot_y, "The label holds class indices.")
      .param("sigmoid", &Params::sigmoid, "Dice of the output's sigmoid.")
      .param("softmax", &Params::softmax, "Dice of the output's softmax over classes.")
      .param("squared_pred", &Params::squared_pred, "Squares in the denominator (V-Net's form).")
      .param("jaccard", &Params::jaccard, "Soft Jaccard index instead of Dice.")
      .param("reduction", &Params::reduction, "Over samples and classes.")
      .choices({"mean", "sum"})
      .param("smooth_nr", &Params::smooth_nr, "Added to the numerator, voxels.")
      .param("smooth_dr", &Params::smooth_dr, "Added to the denominator, voxels.")
      .param("batch", &Params::batch, "Sums run over the whole batch, not each sample.")
      .param("weight", &Params::weight, "By class; one value: for all.")
      .exclusive("sigmoid", "softmax")
      .takes("@key", Form::batch)
      .takes("@label_key", Form::batch)
      .gives("loss", Form::scalar)
      .dtype("float32")
      .any_device();
}

inline DiceCe dice_of(const DiceParams& p) {
  if (p.sigmoid && p.softmax) throw Error(Exit::usage, "sigmoid and softmax exclude each other");
  DiceCe d;
  d.include_background = p.include_background;
  d.to_onehot_y = p.to_onehot_y;
  d.sigmoid = p.sigmoid;
  d.softmax = p.softmax;
  d.squared_pred = p.squared_pred;
  d.jaccard = p.jaccard;
  d.batch = p.batch;
  d.mean = p.reduction == "mean";
  d.smooth_nr = p.smooth_nr;
  d.smooth_dr = p.smooth_dr;
  if (p.weight) d.dice_weight = *p.weight;
  return d;
}

// "hippocampus_001" for member n of a batched field; the batch's own name where it is not known.
inline std::string member_name(const Sample& batch, const Field& field, std::int64_t n) {
  const auto i = static_cast<std::size_t>(n);
  if (i < field.meta.size() && !field.meta[i]->path.empty())
    return std::filesystem::path(field.meta[i]->path).filename().string();
  return batch.name + " (member " + std::to_string(n) + ")";
}

inline std::string number_text(double v) { return Json(v).dump(); }

inline DataError bad_label(const Sample& s, const Field& label, const BadLabel& bad,
                           const std::string& value, std::int64_t classes) {
  return DataError("label value " + value + " in " + member_name(s, label, bad.sample) +
                   "; the network has classes 0 to " + std::to_string(classes - 1));
}

// Shapes fit, weights are as many as classes, and class indices exist.
inline void check_loss_inputs(Firing& f, const DiceParams& p, std::size_t weights) {
  const Sample& s = f.in();
  const at::Tensor& pred = s.tensor(p.key);
  const Field& label = s.at(p.label_key);
  const std::int64_t classes = pred.size(1), given = label.tensor.size(1);
  auto spatial = pred.sizes().vec();
  spatial[1] = given;
  const bool indices = given == 1 && classes > 1;
  if (label.tensor.sizes() != at::IntArrayRef(spatial) || (given != classes && !indices))
    throw DataError("label " + c10::str(label.tensor.sizes()) + " does not fit the output " +
                    c10::str(pred.sizes()));
  if (indices != (p.to_onehot_y && classes > 1))
    throw DataError(indices ? "the label holds class indices: set to_onehot_y"
                            : "to_onehot_y needs a label [N, 1, ...] of class indices, got " +
                                  c10::str(label.tensor.sizes()));
  if (p.weight && p.weight->size() != 1 && p.weight->size() != weights && classes > 1)
    throw Error(Exit::usage, "weight has " + std::to_string(p.weight->size()) + " values for " +
                                 std::to_string(weights) + " classes");
  if (!indices) return;
  f.when_done([&s, &label, classes] {
    if (const auto bad = find_bad_label(label.tensor, classes))
      throw bad_label(s, label, *bad, number_text(bad->value), classes);
  });
}

// The firing of every loss. A device may record it (recorded_step.h) unless classes have weights:
// LibTorch's operations take these from the host at each step.
class Loss : public Node {
 public:
  void process(Firing& f) final {
    check(f);
    emit(f, loss(f));
  }
  std::optional<std::uint64_t> recordable(const Firing&) const final {
    return weighted() ? std::nullopt : std::optional<std::uint64_t>(0);
  }
  void repeated(Firing& f, const Sample& made) final {
    check(f);
    emit(f, made.tensor("loss"));
  }

 protected:
  virtual void check(Firing&) const {}
  virtual at::Tensor loss(const Firing& f) const = 0;  // a scalar
  virtual bool weighted() const { return false; }

 private:
  static void emit(Firing& f, at::Tensor loss) {
    Sample out = f.in();
    out.set("loss", Field(std::move(loss), std::make_shared<const Meta>()));
    f.emit(std::move(out));
  }
};

// Those with a Dice term: its parameters, inputs and weights.
template <class P>
class DiceTermLoss : public Loss {
 public:
  using Params = P;
  P p;

 protected:
  DiceCe dice_;

  // How many classes may have weights of their own: all, or without the background.
  virtual std::int64_t counted(std::int64_t classes) const {
    return classes - (p.include_background ? 0 : 1);
  }
  void check(Firing& f) const final {
    check_loss_inputs(f, p, static_cast<std::size_t>(counted(f.in().tensor(p.key).size(1))));
  }
  at::Tensor loss(const Firing& f) const override {
    return dice_ce(f.in().tensor(p.key), f.in().tensor(p.label_key), dice_);
  }
  bool weighted() const final { return p.weight.has_value(); }
};

}  // namespace sluice
