// What the nodes of diffusion models share: the parameters of MONAI's schedulers, and noise.
#pragma once

#include <ATen/ATen.h>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/run/registry.h"
#include "engine/state/resource.h"
#include "engine/state/sample.h"
#include "kernels/image/intensity.h"
#include "kernels/infer/noise_schedule.h"

namespace sluice {

// Those that training and sampling have in common.
template <class Params>
Spec& add_noise_settings(Spec& s) {
  return s
      .param("scheduler", &Params::scheduler,
             "ddpm, ddim, pndm: as MONAI's DDPMScheduler, DDIMScheduler, PNDMScheduler; rflow: "
             "RFlowScheduler, which knows only the number of timesteps, and no schedule.")
      .choices({"ddpm", "ddim", "pndm", "rflow"})
      .param("num_train_timesteps", &Params::num_train_timesteps,
             "Timesteps; at the last one nearly all is noise.")
      .range(1, 100000)
      .param("schedule", &Params::schedule, "How noise grows with the timesteps.")
      .choices({"linear_beta", "scaled_linear_beta", "sigmoid_beta", "cosine"})
      .param("beta_start", &Params::beta_start,
             "Share of the noise in the first step; of the schedules that are called beta.")
      .range(0, 1)
      .param("beta_end", &Params::beta_end, "And in the last one.")
      .range(0, 1)
      .param("sig_range", &Params::sig_range, "sigmoid_beta: between minus this and this.")
      .above(0)
      .param("s", &Params::s, "cosine: its offset.")
      .at_least(0)
      .param("prediction_type", &Params::prediction_type,
             "What the network says of a noisy image: its noise, the image, or the velocity; rflow "
             "always takes image minus noise.")
      .choices({"epsilon", "sample", "v_prediction"})
      .param("use_discrete_timesteps", &Params::use_discrete_timesteps,
             "rflow: whole timesteps only.")
      .param("use_timestep_transform", &Params::use_timestep_transform,
             "rflow: larger images have more of the noisy timesteps.")
      .param("base_img_size_numel", &Params::base_img_size_numel,
             "rflow: voxels of an image that has the timesteps as they are.")
      .at_least(1);
}

// What becomes of the image that an answer stands for, and of ddpm's steps.
template <class Params>
Spec& add_step_settings(Spec& s) {
  return s
      .param("clip_sample", &Params::clip_sample,
             "ddpm, ddim: the image that a step guesses is clipped.")
      .param("clip_sample_min", &Params::clip_sample_min, "To numbers from this.")
      .param("clip_sample_max", &Params::clip_sample_max, "Up to this.")
      .param("variance_type", &Params::variance_type,
             "ddpm: how much noise a step adds again; fixed_large: the step's own.")
      .choices({"fixed_small", "fixed_large"});
}

// A node that asks a diffusion model again and again.
struct AskingParams : NoiseSettings {
  std::string net, output_key;
  std::vector<std::string> keys{"image"}, controlnet_keys{"cn_cond"};
  std::optional<std::string> condition_key, controlnet;
};
// `image`: what the first of its keys holds; `output`: what the output is.
template <class Params>
Spec asking_spec(const std::string& name, const std::string& doc, const std::string& image,
                 const std::string& output) {
  using Text = std::string Params::*;  // whose default is that of Params, and not its base's
  Spec s(name, doc);
  s.in("sample")
      .out("sample")
      .param("net", &Params::net, "The network's name in \"models\"; it is read as for validation.")
      .required()
      .param("keys", &Params::keys,
             image +
                 "; then what the network takes besides its timesteps, such as a context, in "
                 "its order.")
      .length(1)
      .param("condition_key", &Params::condition_key,
             "A field that is put behind the image's channels in each step (MONAI's mode "
             "\"concat\"); null: none.")
      .param(
          "controlnet", &Params::controlnet,
          "A controlnet of \"models\" that is asked before the network in each step; its outputs "
          "are what the network takes last (additional_residuals). null: none.")
      .param("controlnet_keys", &Params::controlnet_keys,
             "What the controlnet takes besides image and timesteps, in its order: the image to "
             "follow, then a context where it has one.")
      .length(1)
      .param("output_key", Text{&Params::output_key}, "Field for " + output + ".");
  add_noise_settings<Params>(s);
  return add_step_settings<Params>(s)
      .random()
      .lane(LaneKind::step)
      .limit(1)
      .reads("net")
      .reads("controlnet")
      .takes("@keys", Form::batch, 1, 3)
      .takes("@condition_key", Form::batch, 1, 3)
      .when("condition_key")
      .takes("@controlnet_keys", Form::any)
      .when("controlnet")
      .gives("@output_key", Form::batch)
      .dtype("float32")
      .any_device();
}

// Standard normal numbers of x's shape and device: the same on every device.
inline at::Tensor normals_like(const at::Tensor& x, Random& random) {
  const at::Tensor zeros = at::zeros(x.sizes(), at::kFloat);
  return kernels::add_noise(zeros, 0, 1, random.stream()).to(x.device());
}

// [N, C, X(, Y, Z)] float32, or a DataError that names the field.
inline at::Tensor image_batch(const Sample& sample, const std::string& key) {
  const at::Tensor& x = sample.tensor(key);
  if (x.dim() < 3 || x.dim() > 5 || x.numel() == 0)
    throw DataError("\"" + key + "\" has " + std::to_string(x.dim()) +
                    " axes; needed is a batch of images [N, C, X(, Y, Z)]");
  return x.to(at::kFloat);
}
inline std::int64_t voxels_of(const at::Tensor& batch) {
  return batch.numel() / batch.size(0) / batch.size(1);
}

// Next to the image's channels: MONAI's mode "concat". Without a key the image.
at::Tensor with_condition(const at::Tensor& image, const Sample& sample,
                          const std::optional<std::string>& key);

// The networks that such a node asks, as MONAI's DiffusionInferer and ControlNetDiffusionInferer
// do.
class AskedModel {
 public:
  AskedModel(const AskingParams& params, const Resources& resources)
      : p(params), network_(resources.network(p.net)) {
    if (p.controlnet) controlnet_ = resources.network(*p.controlnet);
  }

  void begin() const {
    network_->train(false);
    if (controlnet_) controlnet_->train(false);
  }
  // What is said of images [N, C, ...] at timestep t. With `no_condition` of 2 N images: first with
  // this for the condition, condition_key's field or the second of keys, then with it.
  at::Tensor answer(const at::Tensor& image, float t, const Sample& sample,
                    std::optional<double> no_condition = {}) const;

 private:
  const AskingParams& p;
  std::shared_ptr<Network> network_, controlnet_;
};

}  // namespace sluice
