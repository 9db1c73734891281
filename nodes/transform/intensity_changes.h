// What random changes of intensity and those by given numbers share. Parameters are added to a
// Base, one after the other: a Spec sets members of the first base alone.
#pragma once

#include <ATen/Functions.h>

#include "engine/run/registry.h"
#include "kernels/image/intensity.h"
#include "nodes/transform/fused.h"
#include "nodes/transform/intensity_params.h"

namespace sluice {

template <class Base>
struct ContrastParams : Base {
  bool invert_image = false, retain_stats = false;
};
template <class P>
Spec& add_contrast_params(Spec& s) {
  return s.param("invert_image", &P::invert_image, "Apply it to -x and negate the result.")
      .param("retain_stats", &P::retain_stats,
             "Give the result the mean and standard deviation that the image had.");
}

template <class Base>
struct DeviationParams : Base {
  bool nonzero = false, channel_wise = false;
};
template <class P>
Spec& add_deviation_params(Spec& s) {
  return s
      .param("nonzero", &P::nonzero, "Only voxels that are not 0 count, and only they are changed.")
      .param("channel_wise", &P::channel_wise, "Each channel by its own deviation.");
}

template <class Base>
struct FixedMeanParams : Base {
  bool preserve_range = false, fixed_mean = true, channel_wise = false;
};
template <class P>
Spec& add_fixed_mean_params(Spec& s) {
  return s.param("preserve_range", &P::preserve_range, "Clip to the image's range before.")
      .param("fixed_mean", &P::fixed_mean, "Scale about the mean; otherwise about 0.")
      .param("channel_wise", &P::channel_wise, "Each channel by its own mean and range.");
}

struct IntensityNode : FusedNode {
 protected:
  template <class P, class Change>
  void change_each(Firing& f, const P& p, const Change& change) const {
    Sample out = f.in();
    for_each_key(out, p.keys, p.allow_missing_keys,
                 [&](Field& field, std::size_t) { change(field); });
    finish(f, std::move(out));
  }

  void adjust_contrast(Field& field, double gamma, bool inverted, bool stats) const {
    if (field.tensor.numel() == 0) return;
    auto ops = ops_of(kernels::AugmentKind::contrast,
                      {static_cast<float>(gamma), inverted ? -1.0f : 1.0f});
    if (stats) ops.push_back({kernels::AugmentKind::restore});
    change_values(field, std::move(ops),
                  [gamma, inverted, stats](const at::Tensor& from, const at::Tensor& into) {
                    return adjusted(from, into, gamma, inverted, stats);
                  });
  }

  void shift_by_deviation(Field& field, double factor, bool nonzero, bool channel_wise) const {
    const auto ops = ops_of(kernels::AugmentKind::std_shift,
                            {static_cast<float>(factor), nonzero * 1.0f}, channel_wise);
    change_values(field, ops, [=](const at::Tensor& from, const at::Tensor& into) {
      std::vector<kernels::Shift> functors;
      for (const auto& m : kernels::moments(from, nonzero, channel_wise))
        functors.push_back({static_cast<float>(factor * m.std), nonzero});
      return kernels::map(from, functors, into);
    });
  }

  template <class P>
  void scale_about_mean(Field& field, double factor, const FixedMeanParams<P>& p) const {
    if (field.tensor.numel() == 0) return;
    change_on_host(field, [factor, p](const at::Tensor& from, const at::Tensor& into) {
      std::vector<kernels::Linear> functors;
      const auto gain = static_cast<float>(1 + factor);
      for (const auto& m : kernels::moments(from, false, p.channel_wise))
        functors.push_back({gain, static_cast<float>(p.fixed_mean ? -factor * m.mean : 0)});
      const auto ranges = kernels::ranges(from, p.channel_wise);
      at::Tensor out = kernels::map(from, functors, into);
      for (std::size_t c = 0; c < ranges.size() && p.preserve_range; ++c)
        (p.channel_wise ? out[static_cast<std::int64_t>(c)] : out)
            .clamp_(ranges[c].low, ranges[c].high);
      return out;
    });
  }

 private:
  static at::Tensor adjusted(const at::Tensor& image, const at::Tensor& into, double gamma,
                             bool inverted, bool stats) {
    const kernels::Range range = kernels::ranges(image, false).front();
    kernels::Contrast contrast;
    contrast.low = inverted ? -range.high : range.low;
    contrast.range = range.high - range.low;
    contrast.gamma = gamma;
    contrast.sign = inverted ? -1 : 1;
    kernels::Moments old;
    if (stats) old = kernels::moments(image, false, false).front();
    const at::Tensor out = kernels::map<kernels::Contrast>(image, {contrast}, into);
    return stats ? with_stats(out, old) : out;
  }

  // In place. MONAI's standard deviations are over n - 1 here.
  static at::Tensor with_stats(const at::Tensor& changed, const kernels::Moments& old) {
    const auto now = kernels::moments(changed, false, false).front();
    const double n = old.count, unbiased = n > 1 ? std::sqrt(n / (n - 1)) : 1;
    kernels::Rescale back;
    back.low = now.mean;
    back.range = now.std * unbiased + 1e-8;
    back.gain = old.std * unbiased;
    back.offset = old.mean;
    return kernels::map<kernels::Rescale>(changed, {back}, changed);
  }
};

}  // namespace sluice
