// The network, window by window.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "engine/base/error.h"
#include "kernels/infer/blend_host.h"
#include "kernels/infer/window_weights.h"
#include "tools/edge/node.h"

namespace sluice::edge {
namespace {

using Start = std::vector<std::int64_t>;  // where a window begins

std::string text(const std::vector<std::int64_t>& size) {
  std::string s;
  for (const std::int64_t n : size) s += (s.empty() ? "[" : ", ") + std::to_string(n);
  return s + "]";
}

// Means, or classes, of a volume's windows; see kernels/infer/blend_voxel.h.
class Blended {
 public:
  Blended(const Shape3& volume, const Shape3& window, const WindowWeights& weights, bool half,
          std::int64_t channels, bool classes)
      : weights_(weights), volume_(volume), channels_(channels) {
    const auto plane = static_cast<std::size_t>(volume[1] * volume[2]);
    const auto depth = static_cast<std::size_t>(window[0]);
    const auto planes = classes ? depth : static_cast<std::size_t>(volume[0]);
    sum_.resize(static_cast<std::size_t>(channels) * planes * plane);
    total_.resize(depth * plane);
    if (classes) classes_.resize(static_cast<std::size_t>(volume[0]) * plane);
    sums_.channels = static_cast<std::int32_t>(channels);
    for (int d = 0; d < 3; ++d) {
      sums_.size[d] = static_cast<std::int32_t>(volume[d]);
      window_[d] = static_cast<std::int32_t>(window[d]);
    }
    sums_.sum_planes = static_cast<std::int32_t>(planes);
    sums_.total_planes = static_cast<std::int32_t>(depth);
    sums_.sum = sum_.data();
    sums_.total = total_.data();
    sums_.half = half;
  }

  // Logits [1, channels, window] of a window that begins at `start`, in the first axis' order.
  void add(const float* logits, const Start& start) {
    finish_to(static_cast<std::int32_t>(start[0]));
    kernels::BlendCall c;
    c.logits = logits;
    c.windows = 1;
    for (int d = 0; d < 3; ++d) {
      c.window[d] = window_[d];
      c.start[0][d] = static_cast<std::int32_t>(start[d]);
      if (!weights_.axes.empty()) c.weight[d] = weights_.axes[static_cast<std::size_t>(d)].data();
    }
    c.stride[1] = window_[2];
    c.stride[0] = std::int64_t{window_[1]} * window_[2];
    c.channel_stride = window_[0] * c.stride[0];
    c.window_stride = channels_ * c.channel_stride;
    c.least = weights_.least;
    c.sums = sums_;
    kernels::blend(c);
  }

  std::vector<float> finish() {
    finish_to(sums_.size[0]);
    if (classes_.empty()) return std::move(sum_);
    return {classes_.begin(), classes_.end()};
  }

 private:
  void finish_to(std::int32_t plane) {
    kernels::BlendFinish f;
    f.sums = sums_;
    f.begin = finished_;
    f.end = plane;
    if (!classes_.empty()) f.classes = classes_.data();
    finished_ = plane;
    if (f.begin < f.end) kernels::blend_finish(f);
  }

  const WindowWeights& weights_;
  Shape3 volume_;
  std::int64_t channels_;
  std::vector<float> sum_, total_;
  std::vector<std::uint8_t> classes_;
  kernels::BlendSums sums_;
  std::int32_t window_[3] = {1, 1, 1}, finished_ = 0;
};

struct SlidingWindow final : Node {
  struct Params {
    std::string net, key = "image", output_key = "pred", mode = "constant",
                     padding_mode = "constant", starts = "fixed", sums = "float32";
    std::vector<std::int64_t> roi_size;
    std::int64_t sw_batch_size = 1;
    std::vector<double> overlap{0.25}, sigma_scale{0.125};
    double cval = 0;
    bool argmax = false;
  } p;
  const Engine* engine = nullptr;

  static Spec spec() {
    return Spec("sliding_window", "Applies the network window by window and blends the logits.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net, "The network, a name under \"models\".")
        .required()
        .param("key", &Params::key, "The image.")
        .param("output_key", &Params::output_key, "Receives logits; with argmax classes.")
        .param("roi_size", &Params::roi_size, "The window in voxels.")
        .required()
        .length(1, 3)
        .param("sw_batch_size", &Params::sw_batch_size, "Windows in one forward pass.")
        .at_least(1)
        .param("overlap", &Params::overlap, "Part of a window that the next one covers again.")
        .at_least(0)
        .below(1)
        .param("starts", &Params::starts, "How windows are spread.")
        .choices({"fixed", "even"})
        .param("mode", &Params::mode, "Weights within a window.")
        .choices({"constant", "gaussian", "nnunet"})
        .param("sums", &Params::sums, "What windows add up to is rounded so.")
        .choices({"float32", "float16"})
        .param("sigma_scale", &Params::sigma_scale, "Of a Gaussian.")
        .length(1)
        .param("padding_mode", &Params::padding_mode, "How a smaller image is filled up.")
        .choices({"constant"})
        .param("cval", &Params::cval, "The value to fill with.")
        .param("argmax", &Params::argmax, "The class with the highest logit.")
        .reads("net");
  }

  void open(const Setting& s) override { engine = s.engine; }

  void run(Case& c) const override {
    Image& image = c.image(p.key);
    if (engine->channels() > 0 && engine->channels() != image.channels)
      throw DataError(c.name + ": \"" + p.key + "\" has " + std::to_string(image.channels) +
                      " channels, the network takes " + std::to_string(engine->channels()));
    const Shape3 n = image.shape();
    Shape3 roi, size, before;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t wanted = each(p.roi_size, d);
      roi[d] = wanted > 0 ? wanted : n[d];
      size[d] = std::max(n[d], roi[d]);
      before[d] = (size[d] - n[d]) / 2;
    }
    // Filled up around, and cut back at the end; the image's own grid stays.
    Image around = image.like(image.voxels(), image.channels);
    const Shape3 start{-before[0], -before[1], -before[2]};
    if (size != n) around.crop(start, size, static_cast<float>(p.cval));
    std::int64_t channels = 0;
    std::vector<float> made = predicted(around.voxels(), image.channels, size, roi, c, channels);
    Image result = image.like({}, 0);
    if (size == n) {
      result = image.like(std::move(made), channels);
    } else {
      Image cut = Image(std::move(made), channels, size, image.affine);
      cut.crop(before, n);
      result = image.like(cut.voxels(), channels);
    }
    c.images.insert_or_assign(p.output_key, std::move(result));
  }

 private:
  std::vector<float> predicted(const std::vector<float>& image, std::int64_t image_channels,
                               const Shape3& size, const Shape3& roi, Case& c,
                               std::int64_t& channels) const {
    const std::vector<Start> starts = window_places(
        {size[0], size[1], size[2]}, {roi[0], roi[1], roi[2]}, p.overlap, p.starts == "even");
    c.windows += starts.size();
    const auto voxels = static_cast<std::size_t>(roi[0] * roi[1] * roi[2]);
    const bool half = p.sums == "float16";
    const WindowWeights weights =
        window_weights({roi[0], roi[1], roi[2]}, p.mode, p.sigma_scale, half);
    std::optional<Blended> blended;
    for (std::size_t first = 0; first < starts.size();) {
      const std::size_t count =
          std::min(starts.size() - first, static_cast<std::size_t>(p.sw_batch_size));
      std::vector<float> windows;
      windows.reserve(count * static_cast<std::size_t>(image_channels) * voxels);
      for (std::size_t i = 0; i < count; ++i)
        append(image, image_channels, size, roi, starts[first + i], windows);
      std::vector<std::int64_t> shape{static_cast<std::int64_t>(count), image_channels, roi[0],
                                      roi[1], roi[2]};
      const std::vector<float> y = engine->run(windows, shape);
      if (shape != std::vector{static_cast<std::int64_t>(count), shape[1], roi[0], roi[1], roi[2]})
        throw Error(Exit::usage, "the network makes " + text(shape) +
                                     " of windows; their extent is needed, " +
                                     text({roi[0], roi[1], roi[2]}));
      channels = shape[1];
      const std::size_t all = static_cast<std::size_t>(channels) * voxels;
      for (std::size_t i = 0; i < count; ++i)
        require_finite({y.data() + i * all, all}, c, first + i, starts);
      const bool alone = starts.size() == 1 && !half;
      if (alone && !p.argmax) return y;
      if (!blended) blended.emplace(size, roi, weights, half, channels, p.argmax);
      for (std::size_t i = 0; i < count; ++i) blended->add(y.data() + i * all, starts[first + i]);
      first += count;
    }
    if (p.argmax) channels = 1;
    return blended->finish();
  }

  static void require_finite(std::span<const float> logits, const Case& c, std::size_t window,
                             const std::vector<Start>& starts) {
    for (const float v : logits)
      if (!std::isfinite(v))
        throw Error(Exit::non_finite,
                    c.name + ": the network's logits are NaN or infinite in window " +
                        std::to_string(window + 1) + " of " + std::to_string(starts.size()) +
                        ", at voxel " + text(starts[window]));
  }

  static void append(const std::vector<float>& image, std::int64_t channels, const Shape3& size,
                     const Shape3& roi, const Start& start, std::vector<float>& to) {
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t x = 0; x < roi[0]; ++x)
        for (std::int64_t y = 0; y < roi[1]; ++y) {
          const std::int64_t row =
              ((c * size[0] + start[0] + x) * size[1] + start[1] + y) * size[2] + start[2];
          to.insert(to.end(), image.begin() + row, image.begin() + row + roi[2]);
        }
  }
};

}  // namespace

std::vector<NodeType> window_nodes() { return {type_of<SlidingWindow>()}; }

}  // namespace sluice::edge
