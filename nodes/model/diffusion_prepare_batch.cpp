// diffusion_prepare_batch: MONAI's DiffusionPrepareBatch and VPredictionPrepareBatch, and what its
// DiffusionInferer does with them before the network: images with noise, and what to say of them.
#include <ATen/core/grad_mode.h>

#include "nodes/model/diffusion.h"

namespace sluice {
namespace {

struct DiffusionPrepareBatch final : Node {
  struct Params : NoiseSettings {
    std::string key = "image", output_key = "noisy", timesteps_key = "timesteps",
                target_key = "target";
    std::optional<std::string> condition_key;
    double scale_factor = 1;
  } p;

  static Spec spec() {
    Spec s("diffusion_prepare_batch",
           "What a diffusion model trains on: noise is added to each image of a batch, as much as "
           "a timestep that is drawn says.");
    s.in("sample")
        .out("sample")
        .param("key", &Params::key, "The images, [N, C, X(, Y, Z)], of about -1 to 1.")
        .param("output_key", &Params::output_key, "Field for the noisy images: a network's input.")
        .param("timesteps_key", &Params::timesteps_key,
               "Field for their timesteps, [N] float32: the network's second input.")
        .param("scale_factor", &Params::scale_factor,
               "Latent images are multiplied with it, to a deviation of about 1 (MONAI's "
               "LatentDiffusionInferer).")
        .above(0)
        .param("target_key", &Params::target_key,
               "Field for what the network is to say, by prediction_type: a loss' label_key.")
        .param("condition_key", &Params::condition_key,
               "A field that is put behind the noisy image's channels (MONAI's mode \"concat\"); "
               "null: none.");
    add_noise_settings<Params>(s);
    return s
        .param("sample_method", &Params::sample_method,
               "rflow: how timesteps are drawn; logit-normal: more of the middle ones.")
        .choices({"uniform", "logit-normal"})
        .param("loc", &Params::loc, "logit-normal: the mean before the sigmoid.")
        .param("scale", &Params::scale, "logit-normal: the deviation before the sigmoid.")
        .above(0)
        .random()
        .takes("@key", Form::batch, 1, 3)
        .gives("@output_key", Form::batch)
        .like("@key")
        .dtype("float32")
        .gives("@timesteps_key", Form::any)
        .dtype("float32")
        .gives("@target_key", Form::batch)
        .like("@key")
        .dtype("float32")
        .any_device();
  }

  void open(const OpenContext&) override { schedule_.emplace(p); }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;  // an encoder in front of it is not trained
    const at::Tensor x = image_batch(f.in(), p.key) * p.scale_factor;
    Random random = f.random();
    std::vector<float> t;
    for (std::int64_t n = 0; n < x.size(0); ++n) {
      const double uniform = random.uniform(), normal = random.normal();
      t.push_back(schedule_->timestep(uniform, normal, voxels_of(x), x.dim() - 2));
    }
    const at::Tensor noise = normals_like(x, random);
    Sample out = f.in();
    const auto set = [&](const std::string& key, at::Tensor made) {
      Field field = f.in().at(p.key);
      field.tensor = std::move(made);
      out.set(key, std::move(field));
    };
    set(p.output_key, with_condition(schedule_->noisy(x, noise, t), f.in(), p.condition_key));
    set(p.timesteps_key, at::tensor(t).to(x.device()));
    set(p.target_key, schedule_->target(x, noise, t));
    f.emit(std::move(out));
  }

 private:
  std::optional<NoiseSchedule> schedule_;
};

const Register<DiffusionPrepareBatch> registered;

}  // namespace
}  // namespace sluice
