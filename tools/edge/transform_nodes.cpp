// What stands in front of the network and after it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/base/error.h"
#include "kernels/augment/intensity_ops.h"
#include "kernels/image/foreground_box.h"
#include "kernels/image/spaced_grid.h"
#include "tools/edge/node.h"

namespace sluice::edge {
namespace {

using Keys = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

// A transform of some keys; `allow_missing_keys` is for labels, which predictions have none of.
Spec transform(const char* name, const char* doc) {
  return Spec(name, doc).in("sample").out("sample");
}

Shape3 per_axis(const Numbers& given, const Shape3& otherwise) {
  Shape3 out;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t n = each(given, d);
    out[d] = n > 0 ? n : otherwise[d];
  }
  return out;
}

struct Orientation_ final : Node {
  struct Params {
    Keys keys{"image"}, axcodes{"RAS"};
    bool as_closest_canonical = false;
  } p;
  static Spec spec() {
    return transform("orientation", "Reorders the voxel axes.")
        .param("keys", &Params::keys, "Fields to reorder.")
        .param("axcodes", &Params::axcodes, "A letter a voxel axis; a word or a list.")
        .length(1, 3)
        .param("as_closest_canonical", &Params::as_closest_canonical, "As axcodes \"RAS\".");
  }
  void run(Case& c) const override {
    std::string codes;
    for (const std::string& code : p.axcodes) codes += code;
    if (p.as_closest_canonical) codes = "RAS";
    for (const std::string& key : p.keys) {
      Image& image = c.image(key);
      const Reorder r = reorder_between(orientation_of(image.affine), parse_axcodes(codes));
      if (!(r == Reorder{})) image.reorder(r);
    }
  }
};

struct Spacing final : Node {
  struct Params {
    Keys keys{"image"}, mode{"bilinear", "nearest"}, padding_mode{"border"};
    std::vector<double> pixdim;
    bool diagonal = false, scale_extent = false;
    std::vector<std::optional<double>> min_pixdim, max_pixdim;
  } p;
  static Spec spec() {
    return transform("spacing", "Resamples to voxels of the given size.")
        .param("keys", &Params::keys, "Fields to resample.")
        .param("pixdim", &Params::pixdim, "Voxel sizes in mm.")
        .required()
        .length(1)
        .param("diagonal", &Params::diagonal, "Give the result a diagonal affine.")
        .param("scale_extent", &Params::scale_extent, "Cover the voxels' outer faces.")
        .param("min_pixdim", &Params::min_pixdim, "Sizes that an axis keeps begin here.")
        .param("max_pixdim", &Params::max_pixdim, "See min_pixdim.")
        .param("mode", &Params::mode, "Interpolation; one, or one a key.")
        .choices({"bilinear", "nearest"})
        .per("keys")
        .param("padding_mode", &Params::padding_mode, "Outside the image; one, or one a key.")
        .choices({"zeros", "border", "reflection"})
        .per("keys");
  }
  void run(Case& c) const override {
    for (std::size_t i = 0; i < p.keys.size(); ++i) {
      Image& image = c.image(p.keys[i]);
      const SpacedGrid to =
          spaced_grid({p.pixdim, p.diagonal, p.scale_extent, p.min_pixdim, p.max_pixdim},
                      image.affine, image.shape(), 3);
      if (to.same) continue;
      const std::string& padding = each(p.padding_mode, i);
      image.resample(to.to_source, to.shape, to.affine,
                     each(p.mode, i) == "nearest" ? Interpolation::nearest : Interpolation::linear,
                     padding == "zeros"    ? Padding::zeros
                     : padding == "border" ? Padding::border
                                           : Padding::reflection);
    }
  }
};

struct CropForeground final : Node {
  struct Params {
    Keys keys{"image"};
    std::string source_key = "image", select_fn = "is_positive";
    Numbers margin{0}, k_divisible{1};
    bool allow_smaller = false;
    Keys mode{"constant"};
    double value = 0;
  } p;
  static Spec spec() {
    return transform("crop_foreground", "Crops to the box around what is above 0.")
        .param("keys", &Params::keys, "Fields to crop.")
        .param("source_key", &Params::source_key, "The field whose foreground counts.")
        .param("select_fn", &Params::select_fn, "What foreground is.")
        .choices({"is_positive"})
        .param("margin", &Params::margin, "Voxels around the box.")
        .at_least(0)
        .param("k_divisible", &Params::k_divisible, "Grow the box to multiples of this.")
        .param("allow_smaller", &Params::allow_smaller, "Cut a margin that sticks out.")
        .param("mode", &Params::mode, "How what sticks out is filled.")
        .choices({"constant"})
        .param("value", &Params::value, "The constant.");
  }
  void run(Case& c) const override {
    Image& source = c.image(p.source_key);
    const Shape3 n = source.shape();
    Shape3 low = n, high{-1, -1, -1}, start, size;
    const std::vector<float>& v = source.voxels();
    std::size_t i = 0;
    for (std::int64_t ch = 0; ch < source.channels; ++ch)
      for (std::int64_t x = 0; x < n[0]; ++x)
        for (std::int64_t y = 0; y < n[1]; ++y)
          for (std::int64_t z = 0; z < n[2]; ++z) {
            if (!(v[i++] > 0)) continue;
            const Shape3 at{x, y, z};
            for (std::size_t d = 0; d < 3; ++d) {
              low[d] = std::min(low[d], at[d]);
              high[d] = std::max(high[d], at[d]);
            }
          }
    if (high[0] < 0)
      throw DataError(c.name + ": \"" + p.source_key + "\" has no foreground: no voxel is above 0");
    for (std::size_t d = 0; d < 3; ++d) start[d] = low[d], size[d] = high[d] - low[d] + 1;
    GrowBox{per_axis(p.margin, {0, 0, 0}), per_axis(p.k_divisible, {1, 1, 1}), p.allow_smaller}(
        start, size, n, 3);
    for (const std::string& key : p.keys)
      if (start != Shape3{} || size != c.image(key).shape())
        c.image(key).crop(start, size, static_cast<float>(p.value));
  }
};

struct SpatialPad final : Node {
  struct Params {
    Keys keys{"image"};
    Numbers spatial_size;
    std::string method = "symmetric";
    Keys mode{"constant"};
    double value = 0;
  } p;
  static Spec spec() {
    return transform("spatial_pad", "Pads every axis to at least the given size.")
        .param("keys", &Params::keys, "Fields to pad.")
        .param("spatial_size", &Params::spatial_size, "Voxels.")
        .required()
        .param("method", &Params::method, "Half of the padding in front, or none.")
        .choices({"symmetric", "end"})
        .param("mode", &Params::mode, "How it is filled.")
        .choices({"constant"})
        .param("value", &Params::value, "The constant.");
  }
  void run(Case& c) const override {
    for (const std::string& key : p.keys) {
      Image& image = c.image(key);
      const Shape3 n = image.shape();
      Shape3 size = per_axis(p.spatial_size, n), start;
      for (std::size_t d = 0; d < 3; ++d) {
        size[d] = std::max(size[d], n[d]);
        start[d] = p.method == "symmetric" ? -((size[d] - n[d]) / 2) : 0;
      }
      if (size != n) image.crop(start, size, static_cast<float>(p.value));
    }
  }
};

struct NormalizeIntensity final : Node {
  struct Params {
    Keys keys{"image"};
    std::optional<std::vector<double>> subtrahend, divisor;
    bool nonzero = false, channel_wise = false;
  } p;
  static Spec spec() {
    return transform("normalize_intensity", "(x - mean) / std.")
        .param("keys", &Params::keys, "Fields to normalise.")
        .param("subtrahend", &Params::subtrahend, "Instead of the mean.")
        .param("divisor", &Params::divisor, "Instead of the standard deviation.")
        .param("nonzero", &Params::nonzero, "Only voxels that are not 0.")
        .param("channel_wise", &Params::channel_wise, "Each channel by its own statistics.");
  }
  void open(const Setting&) override {
    const kernels::Normalization n{p.subtrahend, p.divisor, p.nonzero, p.channel_wise};
    if (n.lists() && n.measures() && !p.channel_wise)
      throw Error(Exit::usage,
                  "sluice-edge does not run normalize_intensity by a list and by the statistics of "
                  "all channels");
  }
  void run(Case& c) const override {
    const kernels::Normalization n{p.subtrahend, p.divisor, p.nonzero, p.channel_wise};
    for (const std::string& key : p.keys) {
      Image& image = c.image(key);
      for (const auto* v : {&p.subtrahend, &p.divisor})
        if (*v && (*v)->size() != 1 && static_cast<std::int64_t>((*v)->size()) != image.channels)
          throw DataError(c.name + ": \"" + key + "\" has " + std::to_string(image.channels) +
                          " channels, subtrahend or divisor has " + std::to_string((*v)->size()) +
                          " values");
      for (const auto& op : kernels::ops_of(n, image.channels)) image.add(op);
    }
  }
};

struct ScaleIntensity final : Node {
  struct Params {
    Keys keys{"image"};
    std::optional<double> minv = 0.0, maxv = 1.0, factor;
    bool channel_wise = false;
  } p;
  static Spec spec() {
    return transform("scale_intensity", "Maps the image's own range to [minv, maxv].")
        .param("keys", &Params::keys, "Fields to scale.")
        .param("minv", &Params::minv, "Lower bound of the result.")
        .param("maxv", &Params::maxv, "Upper bound of the result.")
        .param("factor", &Params::factor, "With minv and maxv both null: x (1 + factor).")
        .param("channel_wise", &Params::channel_wise, "Each channel by its own range.");
  }
  void run(Case& c) const override {
    for (const std::string& key : p.keys)
      c.image(key).add(kernels::scale_op(p.minv, p.maxv, p.factor, p.channel_wise));
  }
};

struct ScaleIntensityRange final : Node {
  struct Params {
    Keys keys{"image"};
    double a_min = 0, a_max = 1;
    std::optional<double> b_min, b_max;
    bool clip = false;
  } p;
  static Spec spec() {
    return transform("scale_intensity_range", "Maps [a_min, a_max] linearly to [b_min, b_max].")
        .param("keys", &Params::keys, "Fields to scale.")
        .param("a_min", &Params::a_min, "Lower input bound.")
        .required()
        .param("a_max", &Params::a_max, "Upper input bound.")
        .required()
        .param("b_min", &Params::b_min, "Lower output bound.")
        .param("b_max", &Params::b_max, "Upper output bound.")
        .param("clip", &Params::clip, "Hold the result between b_min and b_max.");
  }
  void run(Case& c) const override {
    const auto op =
        kernels::rescale_op(kernels::rescale(p.a_min, p.a_max, p.b_min, p.b_max, p.clip));
    for (const std::string& key : p.keys) c.image(key).add(op);
  }
};

// ---- after the network --------------------------------------------------------------------------

struct ToDevice final : Node {
  struct Params {
    std::string device = "auto";
  } p;
  static Spec spec() {
    return transform("to_device", "Nothing: everything is on the host.")
        .param("device", &Params::device, "Where to.")
        .choices({"auto", "cpu"});
  }
};

struct Invert final : Node {
  struct Params {
    Keys keys{"pred"}, mode{"nearest"};
  } p;
  static Spec spec() {
    return transform("invert", "Back to the grid of the image as it was loaded.")
        .param("keys", &Params::keys, "Fields with the history of their image.")
        .param("mode", &Params::mode, "nearest for labels, bilinear for logits.")
        .choices({"nearest", "bilinear"})
        .per("keys");
  }
  void run(Case& c) const override {
    for (std::size_t i = 0; i < p.keys.size(); ++i)
      c.image(p.keys[i]).turn_back(each(p.mode, i) == "nearest" ? Interpolation::nearest
                                                                : Interpolation::linear);
  }
};

// The first of the largest channels.
void to_index(Image& image) {
  const std::vector<float>& v = image.voxels();
  const auto channels = static_cast<std::size_t>(image.channels), n = v.size() / channels;
  std::vector<float> best(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(n)), index(n, 0);
  for (std::size_t c = 1; c < channels; ++c)
    for (std::size_t i = 0; i < n; ++i)
      if (v[c * n + i] > best[i]) best[i] = v[c * n + i], index[i] = static_cast<float>(c);
  image.replace(std::move(index), 1);
}

struct Argmax final : Node {
  struct Params {
    Keys keys{"pred"};
  } p;
  static Spec spec() {
    return transform("argmax", "The index of the largest channel.")
        .param("keys", &Params::keys, "Scores.");
  }
  void run(Case& c) const override {
    for (const std::string& key : p.keys) to_index(c.image(key));
  }
};

struct Activations final : Node {
  struct Params {
    Keys keys{"pred"};
    bool sigmoid = false, softmax = false;
  } p;
  static Spec spec() {
    return transform("activations", "Logits to probabilities.")
        .param("keys", &Params::keys, "Logits.")
        .param("sigmoid", &Params::sigmoid, "Each channel by itself.")
        .param("softmax", &Params::softmax, "Over the channels.");
  }
  void run(Case& c) const override {
    for (const std::string& key : p.keys) {
      Image& image = c.image(key);
      std::vector<float> v = image.voxels();
      if (p.sigmoid)
        for (float& x : v) x = 1 / (1 + std::exp(-x));
      if (p.softmax) over_channels(v, static_cast<std::size_t>(image.channels));
      image.replace(std::move(v), image.channels);
    }
  }
  static void over_channels(std::vector<float>& v, std::size_t channels) {
    const std::size_t n = v.size() / channels;
    for (std::size_t i = 0; i < n; ++i) {
      float most = v[i], sum = 0;
      for (std::size_t c = 1; c < channels; ++c) most = std::max(most, v[c * n + i]);
      for (std::size_t c = 0; c < channels; ++c)
        sum += v[c * n + i] = std::exp(v[c * n + i] - most);
      for (std::size_t c = 0; c < channels; ++c) v[c * n + i] /= sum;
    }
  }
};

struct AsDiscrete final : Node {
  struct Params {
    Keys keys{"pred"};
    bool argmax = false, strict = false;
    std::optional<double> threshold;
  } p;
  static Spec spec() {
    return transform("as_discrete", "Argmax, then threshold.")
        .param("keys", &Params::keys, "Scores.")
        .param("argmax", &Params::argmax, "Index of the largest channel.")
        .param("threshold", &Params::threshold, "1 where the value is at least this, else 0.")
        .param("strict", &Params::strict, "1 only where the value is above the threshold.");
  }
  void run(Case& c) const override {
    for (const std::string& key : p.keys) {
      Image& image = c.image(key);
      if (p.argmax) to_index(image);
      if (!p.threshold) continue;
      std::vector<float> v = image.voxels();
      const auto least = static_cast<float>(*p.threshold);
      for (float& x : v) x = x > least || (x == least && !p.strict) ? 1 : 0;
      image.replace(std::move(v), image.channels);
    }
  }
};

struct ConcatItems final : Node {
  struct Params {
    Keys keys;
    std::string name;
  } p;
  static Spec spec() {
    return transform("concat_items", "Joins fields to one, channels behind channels.")
        .param("keys", &Params::keys, "Fields to join.")
        .required()
        .param("name", &Params::name, "The field that is made, with the first one's geometry.")
        .required();
  }
  void run(Case& c) const override {
    std::vector<float> all;
    std::int64_t channels = 0;
    for (const std::string& key : p.keys) {
      Image& image = c.image(key);
      if (image.shape() != c.image(p.keys[0]).shape())
        throw DataError(c.name + ": \"" + key + "\" has another shape than \"" + p.keys[0] + "\"");
      const std::vector<float>& v = image.voxels();
      all.insert(all.end(), v.begin(), v.end());
      channels += image.channels;
    }
    c.images.insert_or_assign(p.name, c.image(p.keys[0]).like(std::move(all), channels));
  }
};

}  // namespace

std::vector<NodeType> transform_nodes() {
  return {type_of<Orientation_>(),
          type_of<Spacing>(),
          type_of<CropForeground>(),
          type_of<SpatialPad>(),
          type_of<NormalizeIntensity>(),
          type_of<ScaleIntensity>(),
          type_of<ScaleIntensityRange>(),
          type_of<ToDevice>(),
          type_of<Invert>(),
          type_of<Argmax>(),
          type_of<Activations>(),
          type_of<AsDiscrete>(),
          type_of<ConcatItems>()};
}

}  // namespace sluice::edge
