// diffusion_likelihood: MONAI's DiffusionInferer.get_likelihood(), how much a diffusion model
// expects an image.
#include <ATen/core/grad_mode.h>

#include "nodes/model/diffusion.h"

namespace sluice {
namespace {

struct DiffusionLikelihood final : Node {
  struct Params : AskingParams {
    std::optional<std::int64_t> num_inference_steps;
    std::vector<double> original_input_range{0, 255}, scaled_input_range{0, 1};
    Params() { output_key = "likelihood"; }
  } p;

  static Spec spec() {
    return asking_spec<Params>(
               "diffusion_likelihood",
               "How little a diffusion model expects an image: at each timestep the image gets the "
               "same noise, and the network's answer is held against it; the mean over voxels, "
               "summed over timesteps, is an upper bound of minus the image's log-likelihood a "
               "voxel. Images unlike the training's have more. Of ddpm alone.",
               "The image [N, C, X(, Y, Z)]", "the numbers, [N, 1]")
        .param("num_inference_steps", &Params::num_inference_steps,
               "Timesteps that are asked, evenly chosen; null: all.")
        .at_least(1)
        .param("original_input_range", &Params::original_input_range,
               "The image's numbers in its file, whole ones: least and most.")
        .length(2, 2)
        .param("scaled_input_range", &Params::scaled_input_range, "What they were scaled to.")
        .length(2, 2);
  }

  void open(const OpenContext& context) override {
    if (!p.is("ddpm"))
      throw Error(Exit::usage, "scheduler: likelihoods are those of ddpm, found " + p.scheduler);
    const auto width = [](const std::vector<double>& range) { return range[1] - range[0]; };
    bin_ = width(p.scaled_input_range) / width(p.original_input_range);
    if (!(width(p.original_input_range) > 0 && bin_ > 0))
      throw Error(Exit::usage, "original_input_range and scaled_input_range: expected [low, high]");
    model_.emplace(p, *context.resources);
    schedule_.emplace(p);
    steps_of(1, 1);  // refuses what does not fit
  }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    model_->begin();
    Random random = f.random();
    const at::Tensor x = image_batch(f.in(), p.keys[0]), noise = normals_like(x, random);
    const Denoising steps = steps_of(voxels_of(x), x.dim() - 2);
    at::Tensor sum = at::zeros({x.size(0), 1}, x.options());
    for (const float t : steps.timesteps()) {
      if (f.stopped()) return;
      const std::vector<float> same(static_cast<std::size_t>(x.size(0)), t);
      const at::Tensor noisy = schedule_->noisy(x, noise, same);
      const at::Tensor y = model_->answer(noisy, t, f.in());
      const at::Tensor d = steps.divergence(y, noisy, x, static_cast<std::int64_t>(t), bin_);
      sum += d.flatten(1).mean(1, true);
    }
    Field field = f.in().at(p.keys[0]);
    field.tensor = sum;
    Sample out = f.in();
    out.set(p.output_key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  Denoising steps_of(std::int64_t voxels, std::int64_t axes) const {
    return {*schedule_, p.num_inference_steps.value_or(p.num_train_timesteps), voxels, axes};
  }

  std::optional<AskedModel> model_;
  std::optional<NoiseSchedule> schedule_;
  double bin_ = 0;
};

const Register<DiffusionLikelihood> registered;

}  // namespace
}  // namespace sluice
