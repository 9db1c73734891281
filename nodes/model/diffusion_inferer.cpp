// diffusion_inferer: sample() of MONAI's DiffusionInferer and ControlNetDiffusionInferer, images of
// noise, step by step.
#include <ATen/core/grad_mode.h>

#include "nodes/model/diffusion.h"

namespace sluice {
namespace {

struct DiffusionInferer final : Node {
  struct Params : AskingParams {
    std::int64_t num_inference_steps = 1000;
    std::optional<double> cfg;
    double cfg_fill_value = -1, scale_factor = 1;
    Params() { output_key = "pred"; }
  } p;

  static Spec spec() {
    return asking_spec<Params>(
               "diffusion_inferer",
               "Makes images of noise with a diffusion model: the network is asked "
               "num_inference_steps times or more (pndm), and each answer takes noise away.",
               "Standard normal noise [N, C, X(, Y, Z)], as the node noise draws it",
               "the images, as the noise")
        .like("@keys")
        .param("num_inference_steps", &Params::num_inference_steps,
               "Steps, at most num_train_timesteps; ddpm wants all of them, the others 50 or so.")
        .at_least(1)
        .param("eta", &Params::eta, "ddim: share of ddpm's noise that a step adds again.")
        .range(0, 1)
        .param("set_alpha_to_one", &Params::set_alpha_to_one,
               "ddim, pndm: before the first timestep there is no noise at all; null: true for "
               "ddim, false for pndm, as in MONAI.")
        .param("steps_offset", &Params::steps_offset, "ddim, pndm, rflow: added to the timesteps.")
        .at_least(0)
        .param("skip_prk_steps", &Params::skip_prk_steps,
               "pndm: without the Runge-Kutta steps at the beginning.")
        .param(
            "cfg", &Params::cfg,
            "Classifier-free guidance: how far to go from the answer without a condition towards "
            "and beyond the one with it; null: none. The condition is the second of keys, or "
            "condition_key.")
        .param("cfg_fill_value", &Params::cfg_fill_value, "What stands for no condition.")
        .param("scale_factor", &Params::scale_factor,
               "Latent images are divided by it in the end, for a decoder behind this node "
               "(MONAI's LatentDiffusionInferer).")
        .above(0);
  }

  void open(const OpenContext& context) override {
    model_.emplace(p, *context.resources);
    schedule_.emplace(p);
    Denoising(*schedule_, p.num_inference_steps, 1, 1);  // refuses what does not fit
    if (p.cfg && p.keys.size() < 2 && !p.condition_key)
      throw Error(Exit::usage, "cfg needs a condition: a second entry of keys, or condition_key");
  }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    model_->begin();
    Random random = f.random();
    at::Tensor x = image_batch(f.in(), p.keys[0]);
    Denoising steps(*schedule_, p.num_inference_steps, voxels_of(x), x.dim() - 2);
    for (std::size_t i = 0; i < steps.timesteps().size(); ++i) {
      if (f.stopped()) return;
      x = steps.step(i, answer(f.in(), x, steps.timesteps()[i]), x,
                     [&] { return normals_like(x, random); });
    }
    Field field = f.in().at(p.keys[0]);
    field.tensor = x / p.scale_factor;
    Sample out = f.in();
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  at::Tensor answer(const Sample& in, const at::Tensor& image, float t) const {
    if (!p.cfg) return model_->answer(image, t, in);
    const auto both = model_->answer(image, t, in, p.cfg_fill_value).chunk(2);
    return both[0] + *p.cfg * (both[1] - both[0]);
  }

  std::optional<AskedModel> model_;
  std::optional<NoiseSchedule> schedule_;
};

const Register<DiffusionInferer> registered;

}  // namespace
}  // namespace sluice
