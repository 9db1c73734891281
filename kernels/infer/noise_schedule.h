// How noise is added to an image, timestep by timestep, and taken away again: diffusion models.
// The numbers are those of monai.networks.schedulers 1.6.1 in float32. Ho, Jain, Abbeel 2020
// (ddpm); Song, Meng, Ermon 2021 (ddim); Liu et al. 2022, "Pseudo numerical methods for diffusion
// models on manifolds" (pndm); Liu, Gong, Liu 2023 (rflow).
//
//   noisy = signal(t) x + noise(t) e      signal^2 + noise^2 = 1; of rflow signal + noise = 1
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct NoiseSettings {
  std::string scheduler = "ddpm", schedule = "linear_beta", prediction_type = "epsilon",
              variance_type = "fixed_small", sample_method = "uniform";
  std::int64_t num_train_timesteps = 1000, steps_offset = 0, base_img_size_numel = 32 * 32 * 32;
  double beta_start = 1e-4, beta_end = 2e-2, sig_range = 6, s = 8e-3;
  bool clip_sample = true, skip_prk_steps = false;
  std::optional<bool> set_alpha_to_one;  // not set: true for ddim, false for pndm
  double clip_sample_min = -1, clip_sample_max = 1, eta = 0;
  bool use_discrete_timesteps = true, use_timestep_transform = false;
  double loc = 0, scale = 1;

  bool is(const char* name) const { return scheduler == name; }
};

class NoiseSchedule {
 public:
  explicit NoiseSchedule(NoiseSettings settings);
  const NoiseSettings& settings() const { return settings_; }

  struct Shares {
    float signal, noise;
  };
  Shares shares(float t) const;
  // x and noise [N, C, ...], a timestep a member.
  at::Tensor noisy(const at::Tensor& x, const at::Tensor& noise, const std::vector<float>& t) const;
  // What a network is to say of the noisy image.
  at::Tensor target(const at::Tensor& x, const at::Tensor& noise,
                    const std::vector<float>& t) const;
  // A timestep to train on, of a draw from [0, 1) and of a normal one; `voxels` of an image with so
  // many axes.
  float timestep(double uniform, double normal, std::int64_t voxels, std::int64_t axes) const;
  // rflow's: larger images have more of the noisy timesteps.
  double moved(double t, std::int64_t voxels, std::int64_t axes) const;

  // Shares of the image's square, and of the noise's in one step; not of rflow.
  float kept(std::int64_t t) const { return kept_[static_cast<std::size_t>(t)]; }
  float beta(std::int64_t t) const { return betas_[static_cast<std::size_t>(t)]; }

 private:
  // signal a + sign noise b
  at::Tensor weighted(const at::Tensor& a, const at::Tensor& b, const std::vector<float>& t,
                      float sign) const;
  NoiseSettings settings_;
  std::vector<float> betas_, kept_;
};

// The way back from noise, for one batch of images: a network's answer at each of timesteps() makes
// the next image.
class Denoising {
 public:
  using Noise = std::function<at::Tensor()>;  // standard normal, as the images

  // `voxels` of an image with `axes` axes; an Error where steps do not fit the schedule.
  Denoising(const NoiseSchedule& schedule, std::int64_t num_inference_steps, std::int64_t voxels,
            std::int64_t axes);
  const std::vector<float>& timesteps() const { return timesteps_; }
  // The image after step i of 0, 1, ...; they are taken in their order.
  at::Tensor step(std::size_t i, const at::Tensor& output, const at::Tensor& image,
                  const Noise& noise);
  // Of ddpm: how far what the answer makes of a noisy image lies from what it should be, by voxel.
  // The Kullback-Leibler divergence of the two normal distributions; at timestep 0 minus the
  // log-likelihood of the image's number, which stands for a bin of that width of numbers from -1
  // to 1.
  at::Tensor divergence(const at::Tensor& output, const at::Tensor& noisy, const at::Tensor& image,
                        std::int64_t t, double bin_width) const;

 private:
  // Of ddpm's image before the timestep: shares of its mean, and its variance.
  struct Before {
    float of_guess, of_image, variance;
  };
  Before before(std::int64_t t) const;
  struct Guess {
    at::Tensor image, noise;  // of no noise at all, and what is noise in the image
  };
  Guess guess(const at::Tensor& output, const at::Tensor& image, std::int64_t t) const;
  at::Tensor ddpm(const at::Tensor& output, const at::Tensor& image, std::int64_t t,
                  const Noise& noise) const;
  at::Tensor ddim(const at::Tensor& output, const at::Tensor& image, std::int64_t t,
                  const Noise& noise) const;
  at::Tensor runge_kutta(std::size_t i, const at::Tensor& output, const at::Tensor& image,
                         std::int64_t t);
  at::Tensor multi_step(std::size_t i, const at::Tensor& output, const at::Tensor& image,
                        std::int64_t t);
  at::Tensor moved(const at::Tensor& image, std::int64_t from, std::int64_t to,
                   const at::Tensor& output) const;
  void even_timesteps(std::int64_t steps);
  void pndm_timesteps(std::int64_t steps);
  void rflow_timesteps(std::int64_t steps, std::int64_t voxels, std::int64_t axes);
  float stored(double t) const;
  float kept_before(std::int64_t t) const;  // also of what is before timestep 0

  const NoiseSchedule& schedule_;
  const NoiseSettings& s_;
  std::vector<float> timesteps_;
  std::int64_t stride_ = 0;          // timesteps from one step to the next
  std::size_t runge_kutta_ = 0;      // so many steps come first
  std::vector<at::Tensor> answers_;  // pndm: the answers before, at most four
  at::Tensor sum_, from_;            // pndm: of a Runge-Kutta step, and where it began
};

}  // namespace sluice
