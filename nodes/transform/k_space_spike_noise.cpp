// k_space_spike_noise: MONAI's KSpaceSpikeNoised.
#include "nodes/transform/each_key.h"
#include "nodes/transform/fourier.h"

namespace sluice {
namespace {

struct KSpaceSpikeNoise final : EachKey<KSpaceSpikeNoise> {
  struct Params : KeyParams {
    std::vector<std::vector<std::int64_t>> loc;
    std::optional<std::vector<double>> k_intensity;
  } p;

  static Spec spec() {
    return each_key_spec<Params>("k_space_spike_noise",
                                 "Sets single frequencies to an amplitude: herringbones of MRI.",
                                 "Fields to change, [C, X, Y] or [C, X, Y, Z]; they become "
                                 "float32.")
        .param("loc", &Params::loc,
               "Places [[x, y(, z)], ...] of the spikes, the zero frequency in the middle; "
               "[[c, x, y(, z)], ...]: in channel c alone.")
        .required()
        .length(1)
        .param("k_intensity", &Params::k_intensity,
               "Logarithms of the amplitudes, one, or one a place; null: 2.5 times the mean of "
               "those of the channel.")
        .any_device()
        .takes("@keys", Form::image, 2, 3)
        .changes("@keys")
        .dtype("float32");
  }

  void open(const OpenContext&) override {
    // One place may stand without a list around it: [x, y] is then read as [[x], [y]].
    bool flat = p.loc.size() > 1;
    for (const auto& place : p.loc) flat &= place.size() == 1;
    if (flat) {
      std::vector<std::int64_t> place;
      for (const auto& one : p.loc) place.push_back(one.front());
      p.loc = {place};
    }
    if (p.k_intensity && p.k_intensity->size() != p.loc.size())
      throw Error(Exit::usage, "k_intensity has " + std::to_string(p.k_intensity->size()) +
                                   " values for " + std::to_string(p.loc.size()) + " places");
  }

  void change(Field& field, std::size_t i) const {
    require_spatial(field.tensor, p.keys[i]);
    const at::Tensor k = to_k_space(field.tensor);
    at::Tensor amplitude = log_amplitude(k);
    const at::Tensor usual = channel_means(amplitude) * 2.5;
    for (std::size_t n = 0; n < p.loc.size(); ++n) {
      auto place = p.loc[n];
      const bool one = std::ssize(place) == k.dim();
      check(place, k, one, p.keys[i]);
      for (std::int64_t c = 0; c < k.size(0); ++c) {
        if (one && place[0] != c) continue;
        at::Tensor voxel = amplitude[c];
        for (std::size_t d = one; d < place.size(); ++d) voxel = voxel[place[d]];
        if (p.k_intensity)
          voxel.fill_((*p.k_intensity)[n]);
        else
          voxel.copy_(usual[c]);
      }
    }
    field.tensor = from_k_space(with_amplitude(k, amplitude));
  }

 private:
  static void check(const std::vector<std::int64_t>& place, const at::Tensor& k, bool one,
                    const std::string& key) {
    bool inside = one || std::ssize(place) == k.dim() - 1;
    for (std::size_t d = 0; d < place.size() && inside; ++d) {
      const std::int64_t n = k.size(static_cast<std::int64_t>(d) + (one ? 0 : 1));
      inside = place[d] >= 0 && place[d] < n;
    }
    if (!inside)
      throw DataError("loc " + list_text(place) + " is no place of field \"" + key +
                      "\" of shape " + list_text(k.sizes()));
  }
};

const Register<KSpaceSpikeNoise> registered;

}  // namespace
}  // namespace sluice
