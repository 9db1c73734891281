// normalize_channels: nnU-Net's normalization, a scheme a channel.
#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

constexpr double least = 1e-8;  // that anything is divided by

struct NormalizeChannels final : Node {
  struct Params {
    std::string key = "image", mask_key;
    std::vector<std::string> schemes{"zscore"};
    std::vector<bool> masked{false};
    std::vector<double> mean{0}, std{1}, lower{0}, upper{1};
  } p;

  static Spec spec() {
    return Spec("normalize_channels",
                "Scales each channel as nnU-Net does, by a scheme of its own.")
        .in("sample")
        .out("sample")
        .param("key", &Params::key, "The image, [C, ...]; it becomes float32.")
        .param("schemes", &Params::schemes,
               "One, or one a channel. zscore: (x - mean) / std of the channel; ct: clipped to "
               "lower and upper, then (x - mean) / std, all given; rescale_to_0_1; rgb_to_0_1: x / "
               "255; none.")
        .choices({"zscore", "ct", "rescale_to_0_1", "rgb_to_0_1", "none"})
        .length(1)
        .param("masked", &Params::masked,
               "zscore: only voxels count and change where mask_key is not 0. One, or one a "
               "channel.")
        .length(1)
        .param("mask_key", &Params::mask_key, "A field [1, ...]; empty: no channel is masked.")
        .param("mean", &Params::mean, "ct: in the image's units; one, or one a channel.")
        .length(1)
        .param("std", &Params::std, "ct: the same.")
        .length(1)
        .param("lower", &Params::lower, "ct: the data set's 0.5th percentile.")
        .length(1)
        .param("upper", &Params::upper, "ct: its 99.5th.")
        .length(1)
        .takes("@key", Form::image)
        .takes("@mask_key", Form::image)
        .when("mask_key");
  }

  void process(Firing& f) override {
    Sample out = f.in();
    Field field = out.at(p.key);
    require_spatial(field.tensor, p.key);
    at::Tensor image = field.tensor.to(at::kFloat).clone();
    const auto channels = static_cast<std::size_t>(image.size(0));
    for (const std::size_t n : {p.schemes.size(), p.masked.size()})
      if (n != 1 && n != channels)
        throw DataError("field \"" + p.key + "\" has " + std::to_string(channels) +
                        " channels, normalize_channels is told of " + std::to_string(n));
    for (std::size_t c = 0; c < channels; ++c) scale(image[static_cast<std::int64_t>(c)], c, out);
    field.tensor = std::move(image);
    out.set(p.key, std::move(field));
    f.emit(std::move(out));
  }

 private:
  void scale(at::Tensor x, std::size_t c, const Sample& sample) const {
    const std::string& scheme = per_key(p.schemes, c);
    if (scheme == "ct") {
      x.clamp_(per_key(p.lower, c), per_key(p.upper, c));
      x.sub_(per_key(p.mean, c)).div_(std::max(per_key(p.std, c), least));
    } else if (scheme == "zscore") {
      const bool masked = p.masked[c < p.masked.size() ? c : p.masked.size() - 1];
      if (masked && !p.mask_key.empty())
        standardize(x, sample.tensor(p.mask_key)[0].ne(0));
      else
        standardize(x, {});
    } else if (scheme == "rescale_to_0_1") {
      x.sub_(x.min());
      x.div_(std::max(x.max().item<double>(), least));
    } else if (scheme == "rgb_to_0_1") {
      if (x.min().item<double>() < 0 || x.max().item<double>() > 255)
        throw DataError("field \"" + p.key +
                        "\" has values outside of 0 to 255, which rgb_to_0_1 "
                        "is for");
      x.div_(255);
    }
  }

  // By the population's deviation, counted in float64.
  static void standardize(at::Tensor x, const at::Tensor& mask) {
    const at::Tensor values = (mask.defined() ? x.masked_select(mask) : x).to(at::kDouble);
    if (values.numel() == 0) return;
    const double mean = values.mean().item<double>();
    const double std = std::max(values.std(/*unbiased=*/false).item<double>(), least);
    const at::Tensor scaled = x.sub(mean).div(std);
    x.copy_(mask.defined() ? at::where(mask, scaled, x) : scaled);
  }
};

const Register<NormalizeChannels> registered;

}  // namespace
}  // namespace sluice
