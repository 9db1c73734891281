// perceptual_loss: MONAI's PerceptualLoss (monai.losses 1.6.1) of the kind "resnet50": images are
// as far apart as what a network makes of them. Zhang et al. 2018.
//
//   image ─┐
//   truth ─┴─ three channels, normalised as ImageNet's ─ net ─ length 1 in each voxel ─ squares of
//   the differences, added up over the channels ─ mean
#include <ATen/core/grad_mode.h>

#include "engine/base/philox.h"
#include "engine/state/resource.h"
#include "nodes/loss/loss.h"

namespace sluice {
namespace {

struct PerceptualParams : LossParams {
  std::string net;
  double fake_3d_ratio = 0.5;
};

struct PerceptualLoss final : LossOf<PerceptualParams> {
  static Spec spec() {
    Spec s("perceptual_loss",
           "How far images are from the truth in the features that a network sees in them (MONAI's "
           "PerceptualLoss with resnet50). Nothing trains that network: its weights are a file's.");
    add_loss_params<Params>(s, "Field with the images, [N, 1 or 3, X, Y(, Z)], from 0 to 1.",
                            Form::batch, 2);
    return add_label_key<Params>(s, "Field with the truth, of the images' shape.")
        .param("net", &Params::net,
               "The network's name in \"models\", which takes pictures of 3 channels: "
               "torchvision_features.")
        .required()
        .param("fake_3d_ratio", &Params::fake_3d_ratio,
               "Of volumes: along each axis this share of all slices is drawn, one at least, and "
               "compared; the three means are added up.")
        .range(0, 1)
        .reads("net")
        .random()
        .limit(1)
        .takes("@label_key", Form::batch, 2);
  }

  void open(const OpenContext& context) override {
    LossOf::open(context);
    network_ = context.resources->network(p.net);
  }

 private:
  std::shared_ptr<Network> network_;

  bool on_host() const override { return true; }  // it draws slices there

  void check(const at::Tensor& pred, Firing& f) const override {
    const at::Tensor truth = on_grid(pred, f.in(), p.label_key);
    if (truth.sizes() != pred.sizes())
      throw DataError("\"" + p.label_key + "\" " + c10::str(truth.sizes()) +
                      " has not the shape of the images, " + c10::str(pred.sizes()));
    if ((pred.dim() != 4 && pred.dim() != 5) || (pred.size(1) != 1 && pred.size(1) != 3))
      throw DataError("the images " + c10::str(pred.sizes()) +
                      " are no [N, 1 or 3, X, Y(, Z)]: the network takes pictures of 3 channels");
  }

  at::Tensor loss(const at::Tensor& pred, const Firing& f) const override {
    const at::Tensor image = pred.to(at::kFloat),
                     truth = on_grid(pred, f.in(), p.label_key).to(at::kFloat);
    network_->train(false);
    Random random = f.random();
    network_->key_draws(random.bits64());
    if (image.dim() == 4) return distance(image, truth);
    at::Tensor sum;
    for (std::int64_t axis = 2; axis < 5; ++axis) {
      const at::Tensor part = along(image, truth, axis, random.bits64());
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

  // Of slices that are drawn, the same of both.
  at::Tensor along(const at::Tensor& image, const at::Tensor& truth, std::int64_t axis,
                   std::uint64_t key) const {
    const auto slices = [axis](const at::Tensor& x) {
      return x.movedim(axis, 1).flatten(0, 1);  // [N * slices, C, ...]
    };
    const std::int64_t all = image.size(0) * image.size(axis);
    const auto drawn = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(all) * p.fake_3d_ratio));
    const Permutation order(static_cast<std::uint64_t>(all), key);
    std::vector<std::int64_t> which;
    for (std::int64_t i = 0; i < drawn; ++i)
      which.push_back(static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i))));
    const at::Tensor chosen = at::tensor(which).to(image.device());
    return distance(slices(image).index_select(0, chosen), slices(truth).index_select(0, chosen));
  }

  at::Tensor distance(const at::Tensor& image, const at::Tensor& truth) const {
    at::Tensor wanted;
    {
      const c10::AutoGradMode mode(c10::GradMode::is_enabled() && truth.requires_grad());
      wanted = features(truth);
    }
    return (features(image) - wanted).square().sum(1).mean();
  }

  at::Tensor features(const at::Tensor& x) const {
    const auto of_channels = [&](at::ArrayRef<float> numbers) {
      return at::tensor(numbers).view({1, 3, 1, 1}).to(x.device());
    };
    const at::Tensor mean = of_channels({0.485F, 0.456F, 0.406F}),
                     deviation = of_channels({0.229F, 0.224F, 0.225F});
    const at::Tensor made = network_->forward((x - mean) / deviation);
    return made / (made.square().sum(1, true) + 1e-10).sqrt();
  }
};

const Register<PerceptualLoss> registered;

}  // namespace
}  // namespace sluice
