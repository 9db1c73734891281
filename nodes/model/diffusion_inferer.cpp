// diffusion_inferer: MONAI's DiffusionInferer.sample(), images of noise, step by step.
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
    network_ = context.resources->network(p.net);
    schedule_.emplace(p);
    Denoising(*schedule_, p.num_inference_steps, 1, 1);  // refuses what does not fit
    if (p.cfg && p.keys.size() < 2 && !p.condition_key)
      throw Error(Exit::usage, "cfg needs a condition: a second entry of keys, or condition_key");
  }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    network_->train(false);
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
  // With guidance a batch of both, without the condition and with it.
  at::Tensor answer(const Sample& in, const at::Tensor& image, float t) const {
    at::Tensor x = with_condition(image, in, p.condition_key);
    if (p.cfg) x = p.condition_key ? with_guidance(x, image.size(1)) : at::cat({x, x});
    Network::Tensors inputs = asked_with(x, t, in, p.keys);
    for (std::size_t k = 2; p.cfg && k < inputs.size(); ++k) {
      const at::Tensor given = inputs[k];
      const bool is_condition = k == 2 && !p.condition_key;
      inputs[k] = at::cat({is_condition ? at::full_like(given, p.cfg_fill_value) : given, given});
    }
    const at::Tensor y = network_->forward(inputs, 1)[0].to(at::kFloat);
    if (!p.cfg) return y;
    const auto both = y.chunk(2);
    return both[0] + *p.cfg * (both[1] - both[0]);
  }
  at::Tensor with_guidance(const at::Tensor& x, std::int64_t channels) const {
    at::Tensor without = x.clone();
    without.narrow(1, channels, x.size(1) - channels).fill_(p.cfg_fill_value);
    return at::cat({without, x});
  }

  std::shared_ptr<Network> network_;
  std::optional<NoiseSchedule> schedule_;
};

const Register<DiffusionInferer> registered;

}  // namespace
}  // namespace sluice
