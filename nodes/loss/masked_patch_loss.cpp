// masked_patch_loss: what a masked autoencoder is trained by. He et al. 2022.
//
//   image ─ patches, each [its voxels, channels last] ─ (own mean and deviation) ─┐
//   output ───────────── squared differences, the mean of each patch ─────────────┴─ mean of those
//   that were masked
#include "nodes/loss/loss.h"
#include "nodes/one_or.h"

namespace sluice {
namespace {

struct MaskedPatchParams : LossParams {
  std::string mask_key = "mask";
  std::vector<std::int64_t> patch_size;
  bool normalize = false;
  MaskedPatchParams() { label_key = "image"; }
};

struct MaskedPatchLoss final : LossOf<MaskedPatchParams> {
  static Spec spec() {
    Spec s("masked_patch_loss",
           "The squared difference from an image's patches, of those that masked_auto_encoder_vit "
           "did not see.");
    add_loss_params<Params>(s, "Field with the network's output, [N, patches, voxels].", Form::any,
                            0);
    return add_label_key<Params>(s, "Field with the image, [N, C, X, Y(, Z)].")
        .param("mask_key", &Params::mask_key,
               "Field with the network's second output, [N, patches]: 1 where it did not see.")
        .param("patch_size", &Params::patch_size,
               "The network's: extents of a patch; one number: of all axes.")
        .at_least(1)
        .length(1, 3)
        .required()
        .param("normalize", &Params::normalize,
               "The truth is each patch by its own mean and deviation.")
        .takes("@label_key", Form::batch)
        .takes("@mask_key", Form::any, 0);
  }

 private:
  void check(const at::Tensor& pred, Firing& f) const override {
    const at::Tensor& mask = f.in().tensor(p.mask_key);
    const at::Tensor truth = patches(f.in().tensor(p.label_key));
    if (pred.sizes() != truth.sizes() || mask.sizes() != pred.sizes().slice(0, 2))
      throw DataError("the output " + c10::str(pred.sizes()) + " and \"" + p.mask_key + "\" " +
                      c10::str(mask.sizes()) + " do not fit the patches of \"" + p.label_key +
                      "\", " + c10::str(truth.sizes()));
  }

  at::Tensor loss(const at::Tensor& pred, const Firing& f) const override {
    const auto type = float_type(pred);
    at::Tensor truth = patches(f.in().tensor(p.label_key).to(type));
    if (p.normalize) {
      const auto [variance, mean] = at::var_mean(truth, at::IntArrayRef{-1}, true, true);
      truth = (truth - mean) / (variance + 1e-6).sqrt();
    }
    const at::Tensor mask = f.in().tensor(p.mask_key).to(type);
    return ((pred.to(type) - truth).square().mean(-1) * mask).sum() / mask.sum();
  }

  // [N, patches, voxels of one, channels last].
  at::Tensor patches(const at::Tensor& image) const {
    const std::int64_t axes = image.dim() - 2;
    require_one_or("patch_size", p.patch_size.size(), static_cast<std::size_t>(axes));
    std::vector<std::int64_t> shape{image.size(0), image.size(1)}, order{0};
    for (std::int64_t a = 0; a < axes; ++a) {
      const std::int64_t extent = image.size(a + 2),
                         patch = p.patch_size[p.patch_size.size() == 1 ? 0 : std::size_t(a)];
      if (extent % patch != 0)
        throw DataError("\"" + p.label_key + "\" " + c10::str(image.sizes()) +
                        " is no whole number of patches of " +
                        c10::str(at::IntArrayRef(p.patch_size)));
      shape.insert(shape.end(), {extent / patch, patch});
    }
    for (std::int64_t of : {2, 3})  // the patches' places, then places in a patch
      for (std::int64_t a = 0; a < axes; ++a) order.push_back(of + 2 * a);
    order.push_back(1);
    return image.reshape(shape).permute(order).flatten(axes + 1).flatten(1, axes);
  }
};

const Register<MaskedPatchLoss> registered;

}  // namespace
}  // namespace sluice
