#include "kernels/infer/noise_schedule.h"

#include <ATen/ATen.h>
#include <c10/util/Half.h>

#include <cmath>
#include <numbers>

#include "engine/base/error.h"

namespace sluice {
namespace {

std::vector<float> numbers_of(const at::Tensor& t) {
  return {t.const_data_ptr<float>(), t.const_data_ptr<float>() + t.numel()};
}

at::Tensor betas_of(const NoiseSettings& p) {
  const auto line = [&](double from, double to) {
    return at::linspace(from, to, p.num_train_timesteps, at::kFloat);
  };
  if (p.schedule == "linear_beta") return line(p.beta_start, p.beta_end);
  if (p.schedule == "scaled_linear_beta")
    return line(std::sqrt(p.beta_start), std::sqrt(p.beta_end)).square();
  if (p.schedule == "sigmoid_beta")
    return at::sigmoid(line(-p.sig_range, p.sig_range)) * (p.beta_end - p.beta_start) +
           p.beta_start;
  // Nichol and Dhariwal 2021.
  const auto n = static_cast<double>(p.num_train_timesteps);
  const at::Tensor x = at::linspace(0, n, p.num_train_timesteps + 1, at::kFloat);
  at::Tensor kept = at::cos((x / n + p.s) / (1 + p.s) * std::numbers::pi * 0.5).square();
  kept = kept / kept[0].item<double>();
  return at::clip(1.0 - kept.slice(0, 1) / kept.slice(0, 0, -1), 0.0, 0.999);
}

}  // namespace

NoiseSchedule::NoiseSchedule(NoiseSettings settings) : settings_(std::move(settings)) {
  if (settings_.is("rflow")) return;
  const at::Tensor betas = betas_of(settings_);
  betas_ = numbers_of(betas);
  kept_ = numbers_of(at::cumprod(1.0 - betas, 0));
}

NoiseSchedule::Shares NoiseSchedule::shares(float t) const {
  if (settings_.is("rflow")) {
    const float signal = 1 - t / static_cast<float>(settings_.num_train_timesteps);
    return {signal, 1 - signal};
  }
  const float a = kept(static_cast<std::int64_t>(t));
  return {std::sqrt(a), std::sqrt(1 - a)};
}

at::Tensor NoiseSchedule::weighted(const at::Tensor& a, const at::Tensor& b,
                                   const std::vector<float>& t, float sign) const {
  std::vector<float> of_a, of_b;
  for (const float one : t) {
    const Shares w = shares(one);
    of_a.push_back(w.signal);
    of_b.push_back(sign * w.noise);
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(a.dim()), 1);
  shape[0] = a.size(0);
  const auto over = [&](const std::vector<float>& w) {
    return at::tensor(w).view(shape).to(a.device());
  };
  return over(of_a) * a + over(of_b) * b;
}

at::Tensor NoiseSchedule::noisy(const at::Tensor& x, const at::Tensor& noise,
                                const std::vector<float>& t) const {
  return weighted(x, noise, t, 1);
}

at::Tensor NoiseSchedule::target(const at::Tensor& x, const at::Tensor& noise,
                                 const std::vector<float>& t) const {
  if (settings_.is("rflow")) return x - noise;
  if (settings_.prediction_type == "epsilon") return noise;
  if (settings_.prediction_type == "sample") return x;
  return weighted(noise, x, t, -1);
}

double NoiseSchedule::moved(double t, std::int64_t voxels, std::int64_t axes) const {
  const auto n = static_cast<double>(settings_.num_train_timesteps);
  const double larger =
      static_cast<double>(voxels) / static_cast<double>(settings_.base_img_size_numel);
  const double ratio = std::pow(larger, 1.0 / static_cast<double>(axes));
  return ratio * (t / n) / (1 + (ratio - 1) * (t / n)) * n;
}

float NoiseSchedule::timestep(double uniform, double normal, std::int64_t voxels,
                              std::int64_t axes) const {
  const NoiseSettings& p = settings_;
  const auto n = static_cast<double>(p.num_train_timesteps);
  const bool even = !p.is("rflow") || p.sample_method == "uniform";
  double t = n * (even ? uniform : 1 / (1 + std::exp(-(p.loc + p.scale * normal))));
  if (!p.is("rflow") || p.use_discrete_timesteps) t = std::floor(t);
  if (p.is("rflow") && p.use_timestep_transform) t = moved(t, voxels, axes);
  return static_cast<float>(t);
}

// ---- the way back -------------------------------------------------------------------------------

Denoising::Denoising(const NoiseSchedule& schedule, std::int64_t steps, std::int64_t voxels,
                     std::int64_t axes)
    : schedule_(schedule), s_(schedule.settings()) {
  const std::int64_t trained = s_.num_train_timesteps;
  if (steps < 1 || steps > trained)
    throw Error(Exit::usage, "num_inference_steps must be from 1 to num_train_timesteps, " +
                                 std::to_string(trained) + ", found " + std::to_string(steps));
  if (s_.steps_offset >= trained)
    throw Error(Exit::usage, "steps_offset must be below num_train_timesteps, " +
                                 std::to_string(trained) + ", found " +
                                 std::to_string(s_.steps_offset));
  stride_ = trained / steps;
  if (s_.is("pndm"))
    pndm_timesteps(steps);
  else if (s_.is("rflow"))
    rflow_timesteps(steps, voxels, axes);
  else
    even_timesteps(steps);
}

void Denoising::even_timesteps(std::int64_t steps) {
  const auto last = static_cast<double>(s_.num_train_timesteps - 1);
  const auto offset = static_cast<double>(s_.is("ddim") ? s_.steps_offset : 0);
  timesteps_ = numbers_of(at::linspace(last - offset, 0, steps, at::kFloat).round() + offset);
}

// Three Runge-Kutta steps of four answers each, then one answer a step.
void Denoising::pndm_timesteps(std::int64_t steps) {
  if (s_.prediction_type == "sample")
    throw Error(Exit::usage, "pndm takes networks that say epsilon or v_prediction, not sample");
  const auto at = [&](std::int64_t k) { return static_cast<float>(k * stride_ + s_.steps_offset); };
  const auto half = static_cast<float>(stride_ / 2);
  if (!s_.skip_prk_steps) {
    if (steps < 4)
      throw Error(Exit::usage, "pndm takes at least 4 num_inference_steps, found " +
                                   std::to_string(steps) + ", or skip_prk_steps");
    for (std::int64_t k = steps - 1; k > steps - 4; --k)
      timesteps_.insert(timesteps_.end(), {at(k), at(k - 1) + half, at(k - 1) + half, at(k - 1)});
    runge_kutta_ = timesteps_.size();
    steps -= 3;
  }
  for (std::int64_t k = steps - 1; k >= 0; --k) timesteps_.push_back(at(k));
  if (timesteps_.front() >= static_cast<float>(s_.num_train_timesteps))
    throw Error(Exit::usage, "steps_offset leads beyond num_train_timesteps");
  stride_ = s_.num_train_timesteps / std::ssize(timesteps_);
  if (stride_ == 0)
    throw Error(Exit::usage, "pndm with these num_inference_steps asks the network " +
                                 std::to_string(timesteps_.size()) +
                                 " times: at most num_train_timesteps, " +
                                 std::to_string(s_.num_train_timesteps));
}

// MONAI keeps rflow's timesteps in 16 bits, and whole ones as integers from there on.
float Denoising::stored(double t) const {
  const float half = c10::Half(static_cast<float>(t));
  return s_.use_discrete_timesteps ? std::trunc(half) : half;
}

void Denoising::rflow_timesteps(std::int64_t steps, std::int64_t voxels, std::int64_t axes) {
  const auto n = static_cast<double>(s_.num_train_timesteps);
  for (std::int64_t i = 0; i < steps; ++i) {
    double t = (1 - static_cast<double>(i) / static_cast<double>(steps)) * n;
    if (s_.use_discrete_timesteps) t = std::nearbyint(t);
    if (s_.use_timestep_transform) t = schedule_.moved(t, voxels, axes);
    timesteps_.push_back(stored(t) + static_cast<float>(s_.steps_offset));
  }
}

float Denoising::kept_before(std::int64_t t) const {
  if (t >= 0) return schedule_.kept(t);
  return s_.is("ddpm") || s_.set_alpha_to_one.value_or(s_.is("ddim")) ? 1.f : schedule_.kept(0);
}

at::Tensor Denoising::step(std::size_t i, const at::Tensor& output, const at::Tensor& image,
                           const Noise& noise) {
  const float t = timesteps_[i];
  if (s_.is("rflow")) {
    const float next = i + 1 < timesteps_.size() ? timesteps_[i + 1] : 0;
    const float way = stored(t - std::trunc(next));  // as a whole number the next one, as MONAI
    return image + output * (way / static_cast<float>(s_.num_train_timesteps));
  }
  const auto whole = static_cast<std::int64_t>(t);
  if (s_.is("ddpm")) return ddpm(output, image, whole, noise);
  if (s_.is("ddim")) return ddim(output, image, whole, noise);
  return i < runge_kutta_ ? runge_kutta(i, output, image, whole)
                          : multi_step(i, output, image, whole);
}

Denoising::Guess Denoising::guess(const at::Tensor& output, const at::Tensor& image,
                                  std::int64_t t) const {
  const float a = schedule_.kept(t), signal = std::sqrt(a), noise = std::sqrt(1 - a);
  Guess g;
  if (s_.prediction_type == "epsilon")
    g = {(image - noise * output) / signal, output};
  else if (s_.prediction_type == "sample")
    g = {output, (image - signal * output) / noise};
  else
    g = {signal * image - noise * output, signal * output + noise * image};
  if (s_.clip_sample) g.image = g.image.clamp(s_.clip_sample_min, s_.clip_sample_max);
  return g;
}

// Formula 7 of Ho et al. 2020.
Denoising::Before Denoising::before(std::int64_t t) const {
  const float a = schedule_.kept(t), last = kept_before(t - 1), beta = schedule_.beta(t);
  return {std::sqrt(last) * beta / (1 - a), std::sqrt(1 - beta) * (1 - last) / (1 - a),
          s_.variance_type == "fixed_large" ? beta : std::max((1 - last) / (1 - a) * beta, 1e-20f)};
}

at::Tensor Denoising::ddpm(const at::Tensor& output, const at::Tensor& image, std::int64_t t,
                           const Noise& noise) const {
  const Before b = before(t);
  const at::Tensor mean = b.of_guess * guess(output, image, t).image + b.of_image * image;
  return t == 0 ? mean : mean + std::sqrt(b.variance) * noise();
}

at::Tensor Denoising::divergence(const at::Tensor& output, const at::Tensor& noisy,
                                 const at::Tensor& image, std::int64_t t, double bin_width) const {
  const Before b = before(t);
  const at::Tensor guessed = guess(output, noisy, t).image;
  if (t > 0) return (b.of_guess * (image - guessed)).square() / (2 * b.variance);
  // Page's approximation of the standard normal distribution, as in improved-diffusion.
  const at::Tensor mean = b.of_guess * guessed + b.of_image * noisy;
  const auto below = [&](double edge) {
    const at::Tensor x = (image - mean + edge) / std::sqrt(b.variance);
    return 0.5 * (1 + at::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x.pow(3))));
  };
  const at::Tensor upper = below(bin_width / 2), lower = below(-bin_width / 2);
  const at::Tensor share =
      at::where(image < -0.999, upper, at::where(image > 0.999, 1 - lower, upper - lower));
  return -share.clamp_min(1e-12).log();
}

// Formulas 12 and 16 of Song et al. 2021.
at::Tensor Denoising::ddim(const at::Tensor& output, const at::Tensor& image, std::int64_t t,
                           const Noise& noise) const {
  const float a = schedule_.kept(t), before = kept_before(t - stride_);
  const float variance = (1 - before) / (1 - a) * (1 - a / before);
  const float deviation = static_cast<float>(s_.eta) * std::sqrt(variance);
  const Guess g = guess(output, image, t);
  const at::Tensor mean =
      std::sqrt(before) * g.image + std::sqrt(1 - before - deviation * deviation) * g.noise;
  return s_.eta > 0 ? mean + deviation * noise() : mean;
}

// Formula 9 of Liu et al. 2022.
at::Tensor Denoising::moved(const at::Tensor& image, std::int64_t from, std::int64_t to,
                            const at::Tensor& output) const {
  const float a = schedule_.kept(from), before = kept_before(to);
  const at::Tensor noise =
      s_.prediction_type == "epsilon" ? output : std::sqrt(a) * output + std::sqrt(1 - a) * image;
  const float below = a * std::sqrt(1 - before) + std::sqrt(a * (1 - a) * before);
  return std::sqrt(before / a) * image - (before - a) / below * noise;
}

at::Tensor Denoising::runge_kutta(std::size_t i, const at::Tensor& output, const at::Tensor& image,
                                  std::int64_t t) {
  const auto first = static_cast<std::int64_t>(timesteps_[i / 4 * 4]);
  const std::int64_t to = i % 2 ? t : t - stride_ / 2;
  if (i % 4 == 0) {
    answers_.push_back(output);
    sum_ = output / 6;
    from_ = image;
  } else {
    sum_ = sum_ + output / (i % 4 == 3 ? 6 : 3);
  }
  return moved(from_, first, to, i % 4 == 3 ? sum_ : output);
}

at::Tensor Denoising::multi_step(std::size_t i, const at::Tensor& output, const at::Tensor& image,
                                 std::int64_t t) {
  if (i == 1)  // without Runge-Kutta steps the second answer improves the first step
    return moved(from_, t + stride_, t, (output + answers_.back()) / 2);
  if (answers_.size() > 3) answers_.erase(answers_.begin(), answers_.end() - 3);
  answers_.push_back(output);
  if (i == 0) from_ = image;
  const auto last = [&](std::size_t k) { return answers_[answers_.size() - k]; };
  at::Tensor e = output;
  if (answers_.size() == 2) e = (3 * last(1) - last(2)) / 2;
  if (answers_.size() == 3) e = (23 * last(1) - 16 * last(2) + 5 * last(3)) / 12;
  if (answers_.size() == 4) e = (55 * last(1) - 59 * last(2) + 37 * last(3) - 9 * last(4)) / 24;
  return moved(image, t, t - stride_, e);
}

}  // namespace sluice
