// rand_k_space_spike_noise: MONAI's RandKSpaceSpikeNoised. Draws of its own for each key.
#include "engine/run/registry.h"
#include "nodes/transform/fourier.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {
namespace {

struct RandKSpaceSpikeNoise final : Node {
  struct Params : RandIntensityParams {
    bool channel_wise = true;
    std::optional<std::vector<std::vector<double>>> intensity_range;
  } p;

  static Spec spec() {
    Spec s("rand_k_space_spike_noise",
           "Sets a frequency, which is drawn, to an amplitude: herringbones of MRI.");
    s.in("sample")
        .out("sample")
        .param("keys", &Params::keys,
               "Fields to change, [C, X, Y] or [C, X, Y, Z]; they become float32.")
        .param("channel_wise", &Params::channel_wise,
               "A place and an amplitude of its own for each channel; otherwise one for all.")
        .param("intensity_range", &Params::intensity_range,
               "[[low, high]] of the amplitude's logarithm, or one pair a channel; null: 0.95 to "
               "1.1 times 2.5 times the mean of those of the channel.");
    return add_rand_intensity_params(s, 2).any_device();
  }

  void open(const OpenContext&) override {
    if (!p.intensity_range) return;
    auto& ranges = *p.intensity_range;
    if (ranges.size() == 2 && ranges[0].size() == 1 && ranges[1].size() == 1)
      ranges = {{ranges[0][0], ranges[1][0]}};  // [low, high] without a list around it
    for (const auto& range : ranges)
      if (range.size() != 2 || range[0] > range[1])
        throw Error(Exit::usage, "intensity_range holds pairs [low, high]");
    if (ranges.size() > 1 && !p.channel_wise)
      throw Error(Exit::usage, "without channel_wise intensity_range is one pair [low, high]");
  }

  void process(Firing& f) override {
    Random random = f.random();
    if (!random.chance(p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys, [&](Field& field, std::size_t i) {
      require_spatial(field.tensor, p.keys[i]);
      field.tensor = spiked(field.tensor, random, p.keys[i]);
    });
    f.emit(std::move(out));
  }

 private:
  at::Tensor spiked(const at::Tensor& image, Random& random, const std::string& key) const {
    const at::Tensor k = to_k_space(image);
    at::Tensor amplitude = log_amplitude(k);
    const at::Tensor usual = (channel_means(amplitude) * 2.5).to(at::kCPU, at::kDouble);
    const std::int64_t channels = k.size(0);
    if (p.intensity_range && p.intensity_range->size() > 1 &&
        std::ssize(*p.intensity_range) != channels)
      throw DataError("field \"" + key + "\" has " + std::to_string(channels) +
                      " channels, intensity_range " + std::to_string(p.intensity_range->size()) +
                      " pairs");
    std::vector<std::int64_t> place;
    double share = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      if (c == 0 || p.channel_wise) {
        place.clear();
        for (std::int64_t d = 1; d < k.dim(); ++d)
          place.push_back(
              static_cast<std::int64_t>(random.integer(static_cast<std::uint64_t>(k.size(d)))));
        share = random.uniform();
      }
      const double mean = usual[c].item<double>();
      const std::vector<double> range =
          p.intensity_range ? per_key(*p.intensity_range, static_cast<std::size_t>(c))
                            : std::vector<double>{0.95 * mean, 1.1 * mean};
      at::Tensor voxel = amplitude[c];
      for (const std::int64_t at : place) voxel = voxel[at];
      voxel.fill_(range[0] + share * (range[1] - range[0]));
    }
    return from_k_space(with_amplitude(k, amplitude));
  }
};

const Register<RandKSpaceSpikeNoise> registered;

}  // namespace
}  // namespace sluice
