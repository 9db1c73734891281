// generalized_wasserstein_dice_loss: MONAI's GeneralizedWassersteinDiceLoss (Fidon et al. 2017).
#include "nodes/loss/term_loss.h"

namespace sluice {
namespace {

struct WassersteinDiceLossParams : TermLossParams {
  std::vector<std::vector<double>> dist_matrix;
  std::string weighting_mode = "default";
  double smooth_nr = 1e-5, smooth_dr = 1e-5;
  WassersteinDiceLossParams() { target.to_onehot_y = true; }
};

struct WassersteinDiceLoss final : TermLoss<WassersteinDiceLossParams> {
  static Spec spec() {
    Spec s("generalized_wasserstein_dice_loss",
           "Dice of the output's softmax in which classes may be close to each other.");
    add_label_loss<Params>(s)
        .param("dist_matrix", &Params::dist_matrix,
               "The distance of each class to each other, a row a class; divided by the largest.")
        .required()
        .param("weighting_mode", &Params::weighting_mode,
               "default: the background does not count as right; GDL: each class by its volume's "
               "inverse.")
        .choices({"default", "GDL"})
        .param("smooth_nr", &Params::smooth_nr, "Added to the numerator.")
        .param("smooth_dr", &Params::smooth_dr, "Added to the denominator.");
    return add_target_reduction(s);
  }
  void open(const OpenContext& context) override {
    TermLoss::open(context);
    for (const auto& row : p.dist_matrix)
      if (row.size() != p.dist_matrix.size())
        throw Error(Exit::usage, "dist_matrix has " + std::to_string(p.dist_matrix.size()) +
                                     " rows, and one of " + std::to_string(row.size()) + " values");
  }
  bool weighted_too() const override { return true; }
  at::Tensor of(const Target& t) const override {
    const std::int64_t classes = t.classes();
    if (std::ssize(p.dist_matrix) != classes)
      throw Error(Exit::usage, "dist_matrix has " + std::to_string(p.dist_matrix.size()) +
                                   " rows for " + std::to_string(classes) + " classes");
    std::vector<double> flat;
    for (const auto& row : p.dist_matrix) flat.insert(flat.end(), row.begin(), row.end());
    at::Tensor matrix = weight_tensor(flat, t.logits()).view({classes, classes});
    matrix = matrix / matrix.max();
    const at::Tensor prob = at::softmax(t.logits(), 1).flatten(2), truth = t.truth().flatten(2);
    const at::Tensor distance = (at::matmul(matrix.t(), truth) * prob).sum(1);  // [N, voxels]
    at::Tensor weight;  // of each voxel's class, [N, voxels]
    if (p.weighting_mode == "GDL")
      weight = (truth / (truth.sum(2, true) + 1)).sum(1);
    else
      weight = 1 - truth.select(1, 0);
    const at::Tensor right = (weight * (1 - distance)).sum(1);
    const at::Tensor all =
        p.weighting_mode == "GDL" ? (weight * (2 - distance)).sum(1) : 2 * right + distance.sum(1);
    return t.reduce(1 - (2 * right + p.smooth_nr) / (all + p.smooth_dr));
  }
};

const Register<WassersteinDiceLoss> registered;

}  // namespace
}  // namespace sluice
