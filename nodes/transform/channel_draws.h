// What nnU-Net's intensity transforms (batchgeneratorsv2) share: a sample is changed with a
// probability, then each of its channels with another and by draws of its own.
#pragma once

#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {

struct ChannelParams : RandIntensityParams {
  double channel_prob = 1;
};

// `range` says what is drawn.
template <class P>
Spec channel_spec(std::string name, std::string doc) {
  Spec s(std::move(name), std::move(doc));
  s.in("sample")
      .out("sample")
      .param("keys", &P::keys, "Images [C, X, Y] or [C, X, Y, Z]; they become float32.")
      .param("channel_prob", &P::channel_prob,
             "Probability that a channel of a changed sample is changed.")
      .range(0, 1);
  add_rand_intensity_params(s, 2);
  return s;
}

// N has `ChannelParams p` and at::Tensor changed(const at::Tensor& channel [1, X, Y, Z],
// std::int64_t axes, Random&) const, which may change and give back what it gets.
template <class N>
struct EachChannel : Node {
  void process(Firing& f) override {
    const N& node = static_cast<const N&>(*this);
    Random random = f.random();
    if (!random.chance(node.p.prob)) return f.emit_ptr(f.ptr());
    Sample out = f.in();
    for_each_volume(out, node.p.keys, node.p.allow_missing_keys,
                    [&](Field& field, const at::Tensor& volume, std::int64_t axes, std::size_t) {
                      at::Tensor image =
                          volume.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
                      for (std::int64_t c = 0; c < image.size(0); ++c) {
                        if (!random.chance(node.p.channel_prob)) continue;
                        at::Tensor channel = image.narrow(0, c, 1);
                        const at::Tensor result = node.changed(channel, axes, random);
                        if (!result.is_same(channel)) channel.copy_(result);
                      }
                      field.tensor = from_volume(image, axes);
                    });
    f.emit(std::move(out));
  }
};

// A factor about 1: from below it as often as from above (batchgeneratorsv2's BGContrast).
inline double draw_about_one(Random& random, const std::vector<double>& range) {
  if (random.uniform() < 0.5 && range[0] < 1) return random.uniform(range[0], 1);
  return random.uniform(std::max(range[0], 1.0), range[1]);
}

}  // namespace sluice
