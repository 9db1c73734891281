// sliding_window: MONAI's SlidingWindowInferer.
//
// A volume larger than a window is covered by windows that overlap; where several predict a voxel,
// their logits are averaged with the window's importance map as weights. Memory beside the result
// is that of a pass of windows and of a window's depth of planes (kernels/infer/blend.h).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>

#include "engine/run/registry.h"
#include "engine/state/averaged_network.h"
#include "engine/state/resource.h"
#include "kernels/image/labels.h"
#include "kernels/infer/windows.h"
#include "nodes/fields.h"

namespace sluice {
namespace {

using Shape = std::vector<std::int64_t>;

struct SlidingWindow final : Node {
  struct Params {
    std::string net, key = "image", output_key = "pred", mode = "constant",
                     padding_mode = "constant", starts = "fixed", sums = "float32";
    Shape roi_size, roi_divisible{1}, mirror_axes;
    std::int64_t sw_batch_size = 1;
    std::vector<double> overlap{0.25}, sigma_scale{0.125};
    double cval = 0.0;
    bool argmax = false;
    std::int64_t slice_axis = -1;
  } p;

  static Spec spec() {
    return Spec("sliding_window",
                "Applies a network window by window and blends the logits. Memory: the windows of "
                "one forward pass, the result, and a window's depth of X x Y x Z weights.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net, "The network, a name under \"models\".")
        .required()
        .param("key", &Params::key, "The image, [C, X, Y, Z] or a batch [N, C, X, Y, Z].")
        .param("output_key", &Params::output_key,
               "Receives float32 logits, [C_out, X, Y, Z] or [N, C_out, X, Y, Z]; with argmax one "
               "channel of uint8.")
        .param("roi_size", &Params::roi_size,
               "The window in voxels, a number a spatial axis; one number: a cube. 0 or less: the "
               "image's extent.")
        .required()
        .length(1)
        .param("roi_divisible", &Params::roi_divisible,
               "By axis: where roi_size is 0 or less, the image's extent rounded up to a multiple "
               "of this; 0 or 1: as it is. What is missing is filled up as padding_mode says.")
        .at_least(0)
        .length(1, 3)
        .param("sw_batch_size", &Params::sw_batch_size, "Windows in one forward pass.")
        .at_least(1)
        .param("overlap", &Params::overlap, "Part of a window that the next one covers again.")
        .at_least(0)
        .below(1)
        .param("starts", &Params::starts,
               "fixed: a window every roi_size (1 - overlap) voxels, the last one shifted back to "
               "fit; even: as many, spread evenly (nnU-Net's).")
        .choices({"fixed", "even"})
        .param("mode", &Params::mode,
               "Weights within a window: equal, or less at its edges; nnunet: nnU-Net's Gaussian, "
               "which goes down to 0 there.")
        .choices({"constant", "gaussian", "nnunet"})
        .param("sums", &Params::sums,
               "float16: what windows add up to is rounded so after each one, in memory float32 "
               "all the same. For the labels that nnU-Net gives: it sums in float16, and where "
               "weights are small few digits are left.")
        .choices({"float32", "float16"})
        .param("sigma_scale", &Params::sigma_scale, "Of a Gaussian: standard deviation / window.")
        .param("padding_mode", &Params::padding_mode,
               "How an image smaller than the window is filled up on both sides.")
        .choices({"constant", "reflect", "replicate", "circular"})
        .param("cval", &Params::cval, "constant: the value to fill with.")
        .param(
            "mirror_axes", &Params::mirror_axes,
            "Test-time augmentation: each window is predicted in every combination of flips of "
            "these spatial axes, and the logits' mean is taken (nnU-Net's mirroring; 2^n passes).")
        .at_least(0)
        .length(0, 3)
        .param("argmax", &Params::argmax,
               "The class with the highest logit, as from a node argmax behind this one. Of logits "
               "only a window's depth is kept, along the first axis.")
        .param(
            "slice_axis", &Params::slice_axis,
            "The network is 2-D and sees slices across this spatial axis, in which roi_size is 1 "
            "(MONAI's SliceInferer); -1: it sees volumes.")
        .range(-1, 2)
        .lane(LaneKind::step)
        .limit(1)
        .reads("net")
        .takes("@key", Form::any, 2, 3)
        .per_axis("@key", "roi_size")
        .enters("@key", "net")
        .windows("roi_size")
        .when("slice_axis", -1)
        .gives("@output_key", Form::any)
        .like("@key")
        .channels("@net.out_channels")
        .dtype("float32")
        .changes("@output_key")
        .channels("1")
        .dtype("uint8")
        .when("argmax", true)
        .any_device();
  }

  void open(const OpenContext& context) override {
    shared_ = net_ = context.resources->network(p.net);
    for (double o : p.overlap)
      if (o >= 1) throw Error(Exit::usage, "overlap must be below 1");
    if (p.sigma_scale.empty()) throw Error(Exit::usage, "sigma_scale is an empty list");
    if (p.roi_size.empty()) throw Error(Exit::usage, "roi_size is an empty list");
    if (p.slice_axis >= 0 && (p.roi_size.size() != 3 || per_key(p.roi_size, p.slice_axis) != 1))
      throw Error(Exit::usage, "with slice_axis, roi_size is 3 numbers, 1 along that axis");
    std::vector<std::int64_t> axes = p.mirror_axes;
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
      throw Error(Exit::usage, "mirror_axes names an axis twice");
  }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    const Field& field = f.in().at(p.key);
    // One number for the window says nothing about the rank: then volumes are meant.
    const auto rank = p.roi_size.size() > 1 ? static_cast<std::int64_t>(p.roi_size.size()) : 3;
    const bool batch = field.tensor.defined() && field.tensor.dim() == rank + 2;
    if (!field.tensor.defined() || (!batch && field.tensor.dim() != rank + 1))
      throw DataError("field \"" + p.key + "\" is neither a sample nor a batch of " +
                      std::to_string(rank) + " spatial axes");
    shared_->train(false);
    const at::Tensor x = batch ? field.tensor : field.tensor.unsqueeze(0);
    const at::Tensor y = averaged(x.to(at::kFloat), f);
    if (!y.defined()) return;
    Sample out = f.in();
    out.set(p.output_key, Field(batch ? y : y.squeeze(0), field.meta));
    f.emit(std::move(out));
  }

 private:
  // Of several weights: the network's own mean of each window, but for float16, in which nnU-Net
  // adds up whole volumes.
  at::Tensor averaged(const at::Tensor& x, const Firing& f) {
    const auto several = std::dynamic_pointer_cast<AveragedNetwork>(shared_);
    net_ = shared_;
    if (!several || p.sums == "float32" || p.argmax) return inferred(x, f);
    at::Tensor sum;
    for (const auto& member : several->members()) {
      net_ = member;
      const at::Tensor one = inferred(x, f);
      if (!one.defined()) return one;
      sum = sum.defined() ? sum.add_(one.to(at::kHalf)) : one.to(at::kHalf);
    }
    return sum.div_(static_cast<double>(several->members().size())).to(at::kFloat);
  }

  // Pads [N, C, ...] up to the window, infers, and cuts the result back.
  at::Tensor inferred(const at::Tensor& x, const Firing& f) {
    const std::int64_t rank = x.dim() - 2;
    Shape roi, pads;
    bool padded = false;
    for (std::int64_t a = 0; a < rank; ++a) {
      const std::int64_t wanted = per_key(p.roi_size, a), size = x.size(a + 2);
      const std::int64_t step = std::max<std::int64_t>(1, per_key(p.roi_divisible, a));
      roi.push_back(wanted > 0 ? wanted : (size + step - 1) / step * step);
      const std::int64_t missing = std::max<std::int64_t>(roi[a] - size, 0);
      // An image's voxels are mirrored or repeated once a side.
      const std::int64_t most = p.padding_mode == "reflect"    ? size - 1
                                : p.padding_mode == "circular" ? size
                                                               : missing;
      if (missing - missing / 2 > most)
        throw DataError("axis " + std::to_string(a) + " of field \"" + p.key + "\" has " +
                        std::to_string(size) + " voxels, too few to fill a window of " +
                        std::to_string(roi[a]) + " with padding_mode " + p.padding_mode);
      pads.insert(pads.begin(), {missing / 2, missing - missing / 2});  // last axis first
      padded = padded || missing > 0;
    }
    if (!padded) return blended(x, roi, f);
    const auto fill = p.padding_mode == "constant" ? std::optional<double>(p.cval) : std::nullopt;
    at::Tensor y = blended(at::pad(x, pads, p.padding_mode, fill), roi, f);
    for (std::int64_t a = 0; y.defined() && a < rank; ++a)
      y = y.narrow(a + 2, pads[2 * (rank - 1 - a)], x.size(a + 2));
    return y.defined() ? y.contiguous() : y;
  }

  // Every axis is at least as long as its window. Undefined where the run was stopped.
  at::Tensor blended(const at::Tensor& x, const Shape& roi, const Firing& f) {
    const std::vector<Shape> windows =
        window_places(x.sizes().slice(2).vec(), roi, p.overlap, p.starts == "even");
    const auto each = static_cast<std::int64_t>(windows.size()), all = each * x.size(0);
    at::Tensor result;
    std::optional<Blend> blend;
    for (std::int64_t first = 0; first < all; first += p.sw_batch_size) {
      if (f.stopped()) return {};
      const std::int64_t end = std::min(first + p.sw_batch_size, all);
      std::vector<at::Tensor> inputs;
      for (auto i = first; i < end; ++i)
        inputs.push_back(part(x[i / each], windows[i % each], roi));
      const at::Tensor y = predicted(at::stack(inputs), roi);
      require_finite(y, first, windows);
      if (all <= p.sw_batch_size && each == 1 && p.sums == "float32")
        return alone(y).to(x.device());
      if (!result.defined()) result = room(x, y);
      for (auto i = first; i < end;) {  // the windows of one member after the other
        const auto next = std::min(end, (i / each + 1) * each);
        if (i % each == 0)
          blend.emplace(importance(roi, result.device()), y.size(1), result[i / each]);
        blend->add(y.slice(0, i - first, next - first),
                   {windows.data() + i % each, static_cast<std::size_t>(next - i)});
        if (next % each == 0) blend->finish();
        i = next;
      }
    }
    return result.to(x.device());
  }

  // A sum that is finite has no NaN and no infinity in it. On a device the host waits for it.
  static void require_finite(const at::Tensor& logits, std::int64_t first,
                             const std::vector<Shape>& windows) {
    if (std::isfinite(logits.sum(at::kFloat).item<float>())) return;
    for (std::int64_t i = 0; i < logits.size(0); ++i) {
      if (at::isfinite(logits[i]).all().item<bool>()) continue;
      const auto window = static_cast<std::size_t>(first + i) % windows.size();
      throw Error(Exit::non_finite, "the network's logits are NaN or infinite in window " +
                                        std::to_string(window + 1) + " of " +
                                        std::to_string(windows.size()) + ", at voxel " +
                                        list_text(windows[window]));
    }
  }

  // Logits beside the image, as in MONAI: a whole volume of them may be more than a device has.
  // Classes where the network is, so that a byte a voxel is all that leaves it.
  at::Tensor room(const at::Tensor& x, const at::Tensor& y) const {
    Shape shape = x.sizes().vec();
    shape[1] = p.argmax ? 1 : y.size(1);
    return at::empty(
        shape, at::dtype(p.argmax ? at::kByte : at::kFloat).device(blend_device(p.argmax ? y : x)));
  }
  at::Tensor alone(const at::Tensor& y) const {
    return p.argmax ? kernels::argmax_members(y) : y.to(at::kFloat);
  }

  // The mean over all combinations of flips.
  at::Tensor predicted(const at::Tensor& windows, const Shape& roi) const {
    const at::Tensor x = windows.to(net_->begins_at(windows.device()));
    at::Tensor sum = passed(x, roi);
    const std::size_t flips = std::size_t{1} << p.mirror_axes.size();
    if (flips > 1) sum = sum.to(at::kFloat, false, true);
    for (std::size_t flip = 1; flip < flips; ++flip) {
      Shape axes;
      for (std::size_t a = 0; a < p.mirror_axes.size(); ++a)
        if (flip >> a & 1) axes.push_back(p.mirror_axes[a] + 2);
      sum.add_(passed(x.flip(axes), roi).flip(axes));
    }
    return flips > 1 ? sum.div_(static_cast<double>(flips)) : sum;
  }

  at::Tensor passed(const at::Tensor& windows, const Shape& roi) const {
    for (const std::int64_t a : p.mirror_axes)
      if (a >= static_cast<std::int64_t>(roi.size()))
        throw Error(Exit::usage, "mirror_axes names axis " + std::to_string(a) + " of " +
                                     std::to_string(roi.size()));
    at::Tensor y =
        p.slice_axis < 0
            ? net_->forward(windows)
            : net_->forward(windows.squeeze(p.slice_axis + 2)).unsqueeze(p.slice_axis + 2);
    if (y.dim() != windows.dim() || y.sizes().slice(2) != at::IntArrayRef(roi))
      throw Error(Exit::usage, "network \"" + p.net + "\" makes " + list_text(y.sizes()) + " of " +
                                   list_text(windows.sizes()) + "; the window's extent is needed");
    return y;
  }

  // The view of a window: the last axes of t, from `at`, as large as `roi`.
  static at::Tensor part(at::Tensor t, const Shape& at, const Shape& roi) {
    const std::int64_t in_front = t.dim() - static_cast<std::int64_t>(roi.size());
    for (std::size_t a = 0; a < roi.size(); ++a) t = t.narrow(in_front + a, at[a], roi[a]);
    return t;
  }

  // Kept, since to move it waits for a device.
  const BlendWindow& importance(const Shape& roi, at::Device home) {
    if (window_.size == roi && home_ == home) return window_;
    window_ = blend_window(roi, p.mode, p.sigma_scale, p.sums == "float16");
    home_ = home;
    for (at::Tensor& weights : window_.weights) weights = weights.to(home);
    return window_;
  }

  std::shared_ptr<Network> shared_, net_;  // the network, and that of it which predicts now
  BlendWindow window_;                     // of the last firing
  at::Device home_ = at::kCPU;
};

const Register<SlidingWindow> registered;

}  // namespace
}  // namespace sluice
