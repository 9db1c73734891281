// gaussian_mixture_model: MONAI's GaussianMixtureModel, on the CPU.
#include "kernels/image/mixture.h"
#include "nodes/transform/filtering.h"

namespace sluice {
namespace {

struct GaussianMixtureModelParams : FilterParams {
  std::string label_key = "label", pred_key = "pred";
  std::int64_t mixture_count = 2, mixture_size = 1;
};

struct GaussianMixtureModel final : Node {
  using Params = GaussianMixtureModelParams;
  Params p;

  static Spec spec() {
    return Spec("gaussian_mixture_model",
                "Learns the colours of a few labelled voxels, a mixture of Gaussians for each "
                "class, and says how probable each class is for every voxel. No gradients.")
        .in("sample")
        .out("sample")
        .param("image_key", &Params::image_key, "Field with the image, [C, ...] or [B, C, ...].")
        .param("label_key", &Params::label_key,
               "Field with whole numbers, one channel: a class from 0, or -1 where it is unknown.")
        .param("pred_key", &Params::pred_key,
               "Field for the probabilities, [K, ...] or [B, K, ...]; 0 where no class knows such "
               "a colour.")
        .param("spatial_dims", &Params::spatial_dims,
               "Spatial axes; null: all but the first, or three of five.")
        .range(1, 3)
        .param("mixture_count", &Params::mixture_count, "Classes, K.")
        .at_least(1)
        .param("mixture_size", &Params::mixture_size, "Gaussians a class.")
        .at_least(1)
        .takes("@image_key", Form::any)
        .takes("@label_key", Form::any)
        .gives("@pred_key", Form::any)
        .like("@image_key")
        .channels("@mixture_count")
        .any_device();
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const FilterBatch image(f.in(), p.image_key, p.spatial_dims);
    const at::Tensor label = labels(f.in().tensor(p.label_key), image);
    std::vector<at::Tensor> preds;
    for (std::int64_t b = 0; b < image.of.size(0); ++b) {
      const at::Tensor colours = image.of[b].flatten(1);
      preds.push_back(apply_mixture(
          colours, learn_mixture(colours, label[b], p.mixture_count, p.mixture_size)));
    }
    auto shape = image.of.sizes().vec();
    shape[1] = p.mixture_count;
    at::Tensor pred = at::stack(preds).view(shape);
    Field field = out.at(p.image_key);
    field.tensor = image.single ? pred.squeeze(0) : pred;
    out.set(p.pred_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  // [B, voxels], int64
  at::Tensor labels(const at::Tensor& given, const FilterBatch& image) const {
    at::Tensor label = image.single ? given.unsqueeze(0) : given;
    auto shape = image.of.sizes().vec();
    shape[1] = 1;
    if (label.is_complex() || label.sizes() != at::IntArrayRef(shape))
      throw shape_error(
          p.label_key, given,
          "; needed is one channel of the image's extents, " + list_text(image.of.sizes()));
    const at::Tensor numbers = label.flatten(1).to(at::kLong);
    if (label.is_floating_point() && !at::equal(numbers.to(label.scalar_type()), label.flatten(1)))
      throw DataError("field \"" + p.label_key + "\" holds numbers that are not whole");
    const auto least = numbers.min().item<std::int64_t>(),
               most = numbers.max().item<std::int64_t>();
    if (least < -1 || most >= p.mixture_count)
      throw DataError("field \"" + p.label_key + "\" holds labels " + std::to_string(least) +
                      " to " + std::to_string(most) + "; mixture_count " +
                      std::to_string(p.mixture_count) + " knows -1 (none) to " +
                      std::to_string(p.mixture_count - 1));
    return numbers;
  }
};

const Register<GaussianMixtureModel> registered;

}  // namespace
}  // namespace sluice
