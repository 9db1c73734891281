// hover_net_loss: MONAI's HoVerNetLoss (Graham et al. 2019).
//
//   nuclei and types:  lambda_dice Dice (sums over the batch) + lambda_ce cross entropy
//   distances d:       lambda_hv_mse (d - t)^2 + lambda_hv_mse_grad |slopes of d - t|^2 on nuclei
#include "kernels/image/filters.h"
#include "kernels/loss/terms.h"
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct HoverNetLoss final : Node {
  struct Params {
    std::string np_key = "nucleus_prediction", hv_key = "horizontal_vertical";
    std::optional<std::string> nc_key = "type_prediction";
    std::string np_label_key = "label", hv_label_key = "hover_label_inst",
                nc_label_key = "label_type", output_key = "loss";
    double lambda_hv_mse = 2, lambda_hv_mse_grad = 1, lambda_np_ce = 1, lambda_np_dice = 1,
           lambda_nc_ce = 1, lambda_nc_dice = 1;
  } p;

  static Spec spec() {
    Spec s(
        "hover_net_loss",
        "The three branches of hover_net together: nuclei, distances from their centres, types.");
    s.in("sample")
        .out("sample")
        .param("np_key", &Params::np_key, "Field with the logits of nuclei, [N, 2, X, Y].")
        .param("hv_key", &Params::hv_key, "... with the distances, [N, 2, X, Y].")
        .param("nc_key", &Params::nc_key,
               "... with the logits of types, [N, C, X, Y]; null: of a network without.")
        .param("np_label_key", &Params::np_label_key,
               "Field with nuclei, [N, 1, X, Y] of 0 and 1, or one-hot [N, 2, X, Y].")
        .param("hv_label_key", &Params::hv_label_key,
               "... with their distances, [N, 2, X, Y], as compute_hover_maps gives them.")
        .param("nc_label_key", &Params::nc_label_key,
               "... with their types, [N, 1, X, Y] of class indices, or one-hot [N, C, X, Y].")
        .param("output_key", &Params::output_key, "Field for the loss.");
    const auto factor = [&s](const char* name, double Params::*of, const char* what) {
      s.param(name, of, what).at_least(0);
    };
    factor("lambda_hv_mse", &Params::lambda_hv_mse, "Factor of the distances' squared error.");
    factor("lambda_hv_mse_grad", &Params::lambda_hv_mse_grad, "... of that of their slopes.");
    factor("lambda_np_ce", &Params::lambda_np_ce, "... of the nuclei's cross entropy.");
    factor("lambda_np_dice", &Params::lambda_np_dice, "... of the nuclei's Dice loss.");
    factor("lambda_nc_ce", &Params::lambda_nc_ce, "... of the types' cross entropy.");
    factor("lambda_nc_dice", &Params::lambda_nc_dice, "... of the types' Dice loss.");
    s.takes("@np_key", Form::batch, 2, 2)
        .takes("@hv_key", Form::batch, 2, 2)
        .takes("@np_label_key", Form::batch, 2, 2)
        .takes("@hv_label_key", Form::batch, 2, 2)
        .takes("@nc_key", Form::batch, 2, 2)
        .when("nc_key")
        .takes("@nc_label_key", Form::batch, 2, 2)
        .when("nc_key");
    return give_loss(s);
  }

  void process(Firing& f) override {
    const Sample& s = f.in();
    const at::Tensor nuclei = indices(s, p.np_label_key, s.tensor(p.np_key));
    at::Tensor loss =
        of_classes(f, p.np_key, p.np_label_key, nuclei, p.lambda_np_dice, p.lambda_np_ce) +
        of_distances(s, nuclei);
    if (p.nc_key) {
      const at::Tensor types = indices(s, p.nc_label_key, s.tensor(*p.nc_key));
      loss =
          loss + of_classes(f, *p.nc_key, p.nc_label_key, types, p.lambda_nc_dice, p.lambda_nc_ce);
    }
    emit_loss(f, p.output_key, std::move(loss));
  }

 private:
  static DataError unfit(const std::string& key, const at::Tensor& label, const at::Tensor& pred) {
    return DataError("field \"" + key + "\" " + c10::str(label.sizes()) +
                     " does not fit the output " + c10::str(pred.sizes()));
  }

  // [N, 1, X, Y] class indices of a label that may be one-hot.
  static at::Tensor indices(const Sample& s, const std::string& key, const at::Tensor& pred) {
    const at::Tensor& label = s.tensor(key);
    auto one = pred.sizes().vec();
    one[1] = 1;
    if (label.sizes() == at::IntArrayRef(one)) return label;
    if (label.sizes() != pred.sizes()) throw unfit(key, label, pred);
    return label.argmax(1, true);
  }

  static at::Tensor of_classes(Firing& f, const std::string& key, const std::string& label_key,
                               const at::Tensor& label, double lambda_dice, double lambda_ce) {
    const Sample& s = f.in();
    const at::Tensor& pred = s.tensor(key);
    const std::int64_t classes = pred.size(1);
    f.when_done([&s, label, label_key, classes] {
      if (const auto bad = find_bad_label(label, classes))
        throw bad_label(s, s.at(label_key), bad->sample, Json(bad->value).dump(), classes);
    });
    TargetOptions summed, mean;
    summed.softmax = summed.to_onehot_y = summed.batch = true;
    mean = summed;
    summed.reduction = Reduce::sum;
    DiceTerm smooth;
    smooth.smooth_nr = smooth.smooth_dr = 1e-3;
    return dice(Target(pred, label, summed), smooth, lambda_dice) +
           lambda_ce * cross_entropy(Target(pred, label, mean));
  }

  at::Tensor of_distances(const Sample& s, const at::Tensor& nuclei) const {
    const at::Tensor &pred = s.tensor(p.hv_key), &truth = s.tensor(p.hv_label_key);
    if (pred.sizes() != truth.sizes() || pred.size(1) != 2)
      throw unfit(p.hv_label_key, truth, pred);
    const auto type = float_type(pred);
    const at::Tensor off = pred.to(type) - truth.to(type);
    // The first channel runs along the second axis, as compute_hover_maps has it.
    const auto slope = [&off](std::int64_t channel, std::int64_t axis) {
      return sobel(off.narrow(1, channel, 1), 5, {axis}, true, "reflect");
    };
    const at::Tensor slopes = at::cat({slope(0, 1), slope(1, 0)}, 1);
    const at::Tensor focus = nuclei.eq(1).to(type);
    return p.lambda_hv_mse * off.square().mean() +
           p.lambda_hv_mse_grad * (focus * slopes.square()).sum() / (2 * focus.sum() + 1e-8);
  }
};

const Register<HoverNetLoss> registered;

}  // namespace
}  // namespace sluice
