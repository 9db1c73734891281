// crf: MONAI's CRF. A network's logits, sharpened against the image.
#include "kernels/image/crf.h"

#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct CrfParams : FilterParams {
  std::string pred_key = "pred";
  std::int64_t iterations = 5;
  double bilateral_weight = 1, gaussian_weight = 1, bilateral_spatial_sigma = 5,
         bilateral_color_sigma = 0.5, gaussian_spatial_sigma = 5, update_factor = 3;
  std::optional<std::vector<std::vector<double>>> compatibility_matrix;
  bool probabilities = false;
};

struct Crf final : Node {
  using Params = CrfParams;
  Params p;

  static Spec spec() {
    Spec s("crf",
           "Logits become probabilities that follow the image's edges: a fully connected "
           "conditional random field. Gradients: pred (the image counts as constant).");
    s.in("sample")
        .out("sample")
        .param("pred_key", &Params::pred_key,
               "Field with the logits, [K, ...] or [B, K, ...]; probabilities take their place.")
        .param("image_key", &Params::image_key, "Field with the image, of the logits' extents.")
        .param("spatial_dims", &Params::spatial_dims,
               "Spatial axes; null: all but the first, or three of five.")
        .range(1, 3)
        .param("iterations", &Params::iterations, "0: softmax alone.")
        .at_least(0)
        .param("bilateral_weight", &Params::bilateral_weight,
               "Of the messages from voxels that are near and of like colour.")
        .param("gaussian_weight", &Params::gaussian_weight, "Of those from voxels that are near.")
        .param("bilateral_spatial_sigma", &Params::bilateral_spatial_sigma, "In voxels.")
        .above(0)
        .param("bilateral_color_sigma", &Params::bilateral_color_sigma, "In the image's units.")
        .above(0)
        .param("gaussian_spatial_sigma", &Params::gaussian_spatial_sigma, "In voxels.")
        .above(0)
        .param("update_factor", &Params::update_factor, "Of the messages, beside the logits.")
        .param("compatibility_matrix", &Params::compatibility_matrix,
               "[K, K]: what a message for class k adds to class c; null: the identity.")
        .param("probabilities", &Params::probabilities,
               "pred holds probabilities: their logarithms, of 1e-6 at least, are the logits.")
        .takes("@pred_key", Form::any)
        .takes("@image_key", Form::any)
        .changes("@pred_key");
    return on_tape(s).any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    FilterBatch logits(f.in(), p.pred_key, p.spatial_dims),
        image(f.in(), p.image_key, logits.axes());
    logits.require_like(image, p.pred_key, p.image_key);
    const CrfRule rule{p.iterations,
                       p.bilateral_weight,
                       p.gaussian_weight,
                       p.bilateral_spatial_sigma,
                       p.bilateral_color_sigma,
                       p.gaussian_spatial_sigma,
                       p.update_factor,
                       compatibility(logits.of.size(1))};
    if (p.probabilities) logits.of = at::log(logits.of.clamp_min(1e-6));
    const at::Tensor made = crf(logits.of, image.of, rule);
    Field field = out.at(p.pred_key);
    field.tensor = logits.single ? made.squeeze(0) : made;
    out.set(p.pred_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  at::Tensor compatibility(std::int64_t classes) const {
    if (!p.compatibility_matrix) return {};
    std::vector<double> numbers;
    bool square = static_cast<std::int64_t>(p.compatibility_matrix->size()) == classes;
    for (const auto& row : *p.compatibility_matrix) {
      square = square && static_cast<std::int64_t>(row.size()) == classes;
      numbers.insert(numbers.end(), row.begin(), row.end());
    }
    if (!square)
      throw DataError("compatibility_matrix: expected " + std::to_string(classes) + " rows of " +
                      std::to_string(classes) + " numbers, as \"" + p.pred_key + "\" has " +
                      std::to_string(classes) + " classes");
    return at::tensor(numbers, at::kDouble).view({classes, classes});
  }
};

const Register<Crf> registered;

}  // namespace
}  // namespace sluice
