// sliding_window: MONAI's SlidingWindowInferer and SlidingWindowHoVerNetInferer.
//
// A volume larger than a window is covered by windows that overlap; where several predict a voxel,
// their logits are averaged with the window's importance map as weights. Memory beside the result
// is that of a pass of windows and of a window's depth of planes (kernels/infer/blend.h).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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
    std::string net, key = "image", mode = "constant", padding_mode = "constant", starts = "fixed",
                     sums = "float32", smaller_outputs = "middle";
    std::optional<std::string> whole_key;
    std::vector<std::string> output_key{"pred"}, further_keys, point_keys;
    Shape roi_size, roi_divisible{1}, mirror_axes, extra_input_padding;
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
        .param("further_keys", &Params::further_keys,
               "What the network takes besides the image, in its order, the same for each window: "
               "prompts such as class_vector, [...] or of a batch [N, ...].")
        .param("point_keys", &Params::point_keys,
               "Two of further_keys: points in voxels of the image, [..., axes], which move to "
               "those of each window, and their labels [...], which are -1 for points outside of "
               "it (MONAI's VISTA3D).")
        .length(0, 2)
        .param("output_key", &Params::output_key,
               "Receives float32 logits, [C_out, X, Y, Z] or [N, C_out, X, Y, Z]; with argmax one "
               "channel of uint8. Of a network with several outputs a list, the main one first.")
        .length(1)
        .param("roi_size", &Params::roi_size,
               "The window in voxels, a number a spatial axis; one number: for each axis. 0 or "
               "less: the image's extent.")
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
        .length(1)
        .param("padding_mode", &Params::padding_mode,
               "How an image smaller than the window is filled up on both sides.")
        .choices({"constant", "reflect", "replicate", "circular"})
        .param("cval", &Params::cval, "constant: the value to fill with.")
        .param("extra_input_padding", &Params::extra_input_padding,
               "Voxels to fill the image up with, in front of and behind each axis, the last axis "
               "first; cut off again from the result. For networks whose outputs are the middle of "
               "a window.")
        .at_least(0)
        .length(0, 6)
        .param(
            "mirror_axes", &Params::mirror_axes,
            "Test-time augmentation: each window is predicted in every combination of flips of "
            "these spatial axes, and the logits' mean is taken (nnU-Net's mirroring; 2^n passes).")
        .at_least(0)
        .length(0, 3)
        .param("argmax", &Params::argmax,
               "The class with the highest logit, as from a node argmax behind this one. Of logits "
               "only a window's depth is kept, along the first axis.")
        .param("smaller_outputs", &Params::smaller_outputs,
               "What an output that is smaller than its window is of: of the window's middle, or "
               "of all of it, on a grid so many times coarser (a detector's maps).")
        .choices({"middle", "coarse"})
        .param("whole_key", &Params::whole_key,
               "If set, the network sees an image at once, whatever roi_size is, where this field "
               "has fewer voxels than a window.")
        .param(
            "slice_axis", &Params::slice_axis,
            "The network is 2-D and sees slices across this spatial axis, in which roi_size is 1 "
            "(MONAI's SliceInferer); -1: it sees volumes.")
        .range(-1, 2)
        .lane(LaneKind::step)
        .limit(1)
        .reads("net")
        .takes("@key", Form::any, 2, 3)
        .takes("@further_keys", Form::any)
        .takes("@whole_key", Form::any, 2, 3)
        .per_axis("@key", "roi_size")
        .enters("@key", "net")
        .windows("roi_size")
        .when("slice_axis", -1)
        .gives("@output_key", Form::any)
        .like("@key")
        .channels("@net.out_channels")
        .dtype("float32")
        .resizes("@output_key")
        .when("smaller_outputs", "coarse")
        .changes("@output_key")
        .channels("1")
        .dtype("uint8")
        .when("argmax", true)
        .any_device();
  }

  void open(const OpenContext& context) override {
    shared_ = net_ = context.resources->network(p.net);
    if (p.argmax && p.output_key.size() > 1)
      throw Error(Exit::usage, "argmax is for one output; output_key names " +
                                   std::to_string(p.output_key.size()));
    if (p.extra_input_padding.size() % 2 != 0)
      throw Error(Exit::usage, "extra_input_padding is pairs of numbers, two an axis");
    if (coarse() && !p.extra_input_padding.empty())
      throw Error(Exit::usage,
                  "extra_input_padding is for outputs of a window's middle; smaller_outputs says "
                  "that they are of all of it");
    if (p.output_key.size() > net_->output_count())
      throw Error(Exit::usage, "network \"" + p.net + "\" has " +
                                   std::to_string(net_->output_count()) + " outputs, but " +
                                   std::to_string(p.output_key.size()) + " are named");
    // One number counts along each axis of the network's images: three where it does not say.
    axes_ = p.roi_size.size();
    if (axes_ == 1) axes_ = net_->spatial_axes() > 0 ? net_->spatial_axes() : 3;
    require_one_or("overlap", p.overlap.size(), axes_);
    require_one_or("sigma_scale", p.sigma_scale.size(), axes_);
    require_one_or("roi_divisible", p.roi_divisible.size(), axes_);
    if (p.slice_axis >= 0 && (p.roi_size.size() != 3 || per_key(p.roi_size, p.slice_axis) != 1))
      throw Error(Exit::usage, "with slice_axis, roi_size is 3 numbers, 1 along that axis");
    for (const std::string& key : p.point_keys)
      if (std::count(p.further_keys.begin(), p.further_keys.end(), key) != 1)
        throw Error(Exit::usage, "point_keys: \"" + key + "\" is not one of further_keys");
    if (p.point_keys.size() == 1)
      throw Error(Exit::usage, "point_keys are two: points and their labels");
    if (!p.point_keys.empty() && (!p.mirror_axes.empty() || p.slice_axis >= 0))
      throw Error(Exit::usage, "points are neither mirrored nor laid into slices: leave out " +
                                   std::string(p.slice_axis >= 0 ? "slice_axis" : "mirror_axes"));
    std::vector<std::int64_t> axes = p.mirror_axes;
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
      throw Error(Exit::usage, "mirror_axes names an axis twice");
  }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    const Field& field = f.in().at(p.key);
    const auto rank = static_cast<std::int64_t>(axes_);
    const bool batch = field.tensor.defined() && field.tensor.dim() == rank + 2;
    if (!field.tensor.defined() || (!batch && field.tensor.dim() != rank + 1))
      throw DataError("field \"" + p.key + "\" is neither a sample nor a batch of " +
                      std::to_string(rank) + " spatial axes");
    shared_->train(false);
    const at::Tensor x = batch ? field.tensor : field.tensor.unsqueeze(0);
    further_.clear();
    for (const std::string& key : p.further_keys) {
      const at::Tensor& t = f.in().tensor(key);
      further_.push_back(batch ? t : t.unsqueeze(0));
      if (further_.back().size(0) != x.size(0))
        throw DataError("\"" + key + "\" is of " + std::to_string(t.size(0)) + " members, \"" +
                        p.key + "\" of " + std::to_string(x.size(0)));
    }
    sees_whole_ = p.whole_key && voxels_of(f.in().tensor(*p.whole_key)) < window_voxels();
    const Outputs y = averaged(x.to(at::kFloat), f);
    if (y.empty()) return;
    Sample out = f.in();
    for (std::size_t o = 0; o < y.size(); ++o)
      out.set(p.output_key[o], Field(batch ? y[o] : y[o].squeeze(0), field.meta));
    f.emit(std::move(out));
  }

 private:
  using Outputs = Network::Tensors;  // none where the run was stopped

  bool coarse() const { return p.smaller_outputs == "coarse"; }
  std::int64_t window_voxels() const {
    std::int64_t n = 1;
    for (std::size_t a = 0; a < axes_; ++a) n *= per_key(p.roi_size, a);
    return n;
  }
  std::int64_t voxels_of(const at::Tensor& t) const {
    std::int64_t n = 1;
    for (std::int64_t a = 1; a <= std::min(t.dim(), static_cast<std::int64_t>(axes_)); ++a)
      n *= t.size(-a);
    return n;
  }

  // Of several weights: the network's own mean of each window, but for float16, in which nnU-Net
  // adds up whole volumes.
  Outputs averaged(const at::Tensor& x, const Firing& f) {
    const auto several = std::dynamic_pointer_cast<AveragedNetwork>(shared_);
    net_ = shared_;
    if (!several || p.sums == "float32" || p.argmax) return inferred(x, f);
    Outputs sums;
    for (const auto& member : several->members()) {
      net_ = member;
      const Outputs one = inferred(x, f);
      if (one.empty()) return {};
      for (std::size_t o = 0; o < one.size(); ++o)
        if (sums.size() <= o)
          sums.push_back(one[o].to(at::kHalf));
        else
          sums[o].add_(one[o].to(at::kHalf));
    }
    for (at::Tensor& sum : sums)
      sum = sum.div_(static_cast<double>(several->members().size())).to(at::kFloat);
    return sums;
  }

  // Fills [N, C, ...] up, the last axis first. An image's voxels are mirrored or repeated once a
  // side.
  at::Tensor filled(const at::Tensor& x, const Shape& pads) const {
    if (std::all_of(pads.begin(), pads.end(), [](auto n) { return n == 0; })) return x;
    for (std::size_t i = 0; i < pads.size(); ++i) {
      const std::int64_t axis = x.dim() - 3 - static_cast<std::int64_t>(i / 2);
      if (axis < 0)
        throw Error(Exit::usage, "extra_input_padding has " + std::to_string(pads.size()) +
                                     " numbers for " + std::to_string(x.dim() - 2) + " axes");
      const std::int64_t size = x.size(axis + 2);
      const std::int64_t most = p.padding_mode == "reflect"    ? size - 1
                                : p.padding_mode == "circular" ? size
                                                               : pads[i];
      if (pads[i] > most)
        throw DataError("axis " + std::to_string(axis) + " of field \"" + p.key + "\" has " +
                        std::to_string(size) + " voxels, too few to be filled up by " +
                        std::to_string(pads[i]) + " with padding_mode " + p.padding_mode);
    }
    const auto fill = p.padding_mode == "constant" ? std::optional<double>(p.cval) : std::nullopt;
    return at::pad(x, pads, p.padding_mode, fill);
  }

  // Pads [N, C, ...] up to the window, infers, and cuts the results back.
  Outputs inferred(const at::Tensor& image, const Firing& f) {
    const at::Tensor x = filled(image, p.extra_input_padding);
    Shape roi, pads;
    for (std::int64_t a = 0; a < x.dim() - 2; ++a) {
      const std::int64_t wanted = sees_whole_ ? 0 : per_key(p.roi_size, a), size = x.size(a + 2);
      const std::int64_t step = std::max<std::int64_t>(1, per_key(p.roi_divisible, a));
      roi.push_back(wanted > 0 ? wanted : (size + step - 1) / step * step);
      const std::int64_t missing = std::max<std::int64_t>(roi[a] - size, 0);
      pads.insert(pads.begin(), {missing / 2, missing - missing / 2});
    }
    const at::Tensor wide = filled(x, pads);
    Shape front;
    for (std::size_t a = 0; a < roi.size(); ++a) {
      const std::size_t pair = 2 * (roi.size() - 1 - a);
      front.push_back(extra(pair) + pads[pair]);
    }
    Outputs all = blended(wide, roi, front, f);
    for (at::Tensor& y : all) {
      for (std::size_t i = 0; i < pads.size(); i += 2) {
        const auto axis = x.dim() - 1 - static_cast<std::int64_t>(i / 2);
        if (coarse()) {
          if (pads[i] + pads[i + 1] > 0) y = cut_back(y, axis, pads[i], x.size(axis), wide);
          continue;
        }
        const std::int64_t missing = (wide.size(axis) - y.size(axis)) / 2;  // in front
        y = y.narrow(axis, extra(i) + pads[i] - missing, image.size(axis));
      }
      y = y.contiguous();
    }
    return all;
  }
  // Of a coarse map what lies over the image, to the nearest of its voxels, as MONAI rounds.
  static at::Tensor cut_back(const at::Tensor& y, std::int64_t axis, std::int64_t front,
                             std::int64_t size, const at::Tensor& wide) {
    const double share = static_cast<double>(y.size(axis)) / static_cast<double>(wide.size(axis));
    const auto at = [&](std::int64_t voxel) {
      return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(voxel) * share));
    };
    return y.narrow(axis, at(front), at(front + size) - at(front));
  }
  std::int64_t extra(std::size_t i) const {
    return i < p.extra_input_padding.size() ? p.extra_input_padding[i] : 0;
  }

  // further_ for windows of one pass, each of a member: points count from where a window begins,
  // `front` voxels of which were filled up.
  Network::Tensors further(const std::vector<std::pair<std::int64_t, Shape>>& passed,
                           const Shape& roi, const Shape& front) const {
    Network::Tensors all;
    for (const at::Tensor& t : further_) {
      std::vector<at::Tensor> each;
      for (const auto& [member, at] : passed) each.push_back(t[member]);
      all.push_back(at::stack(each));
    }
    if (p.point_keys.empty()) return all;
    const auto of = [&](std::size_t k) -> at::Tensor& {
      const auto found = std::find(p.further_keys.begin(), p.further_keys.end(), p.point_keys[k]);
      return all[static_cast<std::size_t>(found - p.further_keys.begin())];
    };
    at::Tensor &points = of(0), &labels = of(1);
    if (points.size(-1) != std::ssize(roi) || points.dim() != labels.dim() + 1)
      throw DataError("point_keys: points are " + list_text(points.sizes()) + ", labels " +
                      list_text(labels.sizes()) + "; needed are [..., " +
                      std::to_string(roi.size()) + "] and [...]");
    for (std::int64_t w = 0; w < std::ssize(passed); ++w) {
      Shape begin = passed[static_cast<std::size_t>(w)].second;
      for (std::size_t a = 0; a < roi.size(); ++a) begin[a] -= front[a];
      const at::Tensor own = points[w].sub_(at::tensor(begin, points.options()));
      const at::Tensor inside = own.ge(0).logical_and_(own.lt(at::tensor(roi, own.options())));
      labels[w].masked_fill_(inside.all(-1).logical_not_(), -1);
    }
    return all;
  }

  // Every axis is at least as long as its window. An output smaller than a window is its middle,
  // and the results are that much smaller than x.
  Outputs blended(const at::Tensor& x, const Shape& roi, const Shape& front, const Firing& f) {
    const std::vector<Shape> windows =
        window_places(x.sizes().slice(2).vec(), roi, p.overlap, p.starts == "even");
    const auto each = static_cast<std::int64_t>(windows.size()), all = each * x.size(0);
    const std::int64_t at_once = sees_whole_ ? all : p.sw_batch_size;
    Outputs results;
    std::vector<std::optional<Blend>> blends(p.output_key.size());
    std::vector<std::vector<at::Tensor>> unread(p.output_key.size());  // windows' sums on a device
    for (std::int64_t first = 0; first < all; first += at_once) {
      if (f.stopped()) return {};
      const std::int64_t end = std::min(first + at_once, all);
      std::vector<at::Tensor> parts;
      std::vector<std::pair<std::int64_t, Shape>> places;
      for (auto i = first; i < end; ++i) {
        places.emplace_back(i / each, windows[i % each]);
        parts.push_back(part(x[i / each], windows[i % each], roi));
      }
      Network::Tensors inputs = further(places, roi, front);
      inputs.insert(inputs.begin(), at::stack(parts));
      const Outputs outputs = predicted(std::move(inputs), roi);
      const bool alone = all <= at_once && each == 1 && p.sums == "float32";
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        const at::Tensor& y = outputs[o];
        const at::Tensor sums = y.sum(after_first(y), false, at::kFloat);
        if (y.is_cpu())
          require_finite(sums, first, windows);
        else
          unread[o].push_back(sums);
        if (first == 0) {
          if (!coarse())
            require_cover(y, roi, windows);
          else if (!alone)
            require_even(x, y, roi, windows);
          results.push_back(alone ? finished(y) : room(x, y, roi));
        }
        for (auto i = first; i < end && !alone;) {  // the windows of one member after the other
          const auto next = std::min(end, (i / each + 1) * each);
          if (i % each == 0) {
            const at::Tensor& result = results[o];
            blends[o].emplace(importance(roi, y, result.device()), y.size(1), result[i / each]);
          }
          std::vector<Shape> begins(windows.begin() + i % each,
                                    windows.begin() + i % each + (next - i));
          for (std::size_t a = 0; coarse() && a < roi.size(); ++a)
            for (Shape& begin : begins) begin[a] /= factor(roi, y, a);
          blends[o]->add(y.slice(0, i - first, next - first), begins);
          if (next % each == 0) blends[o]->finish();
          i = next;
        }
      }
    }
    for (const auto& sums : unread)  // to read each pass's would have the device wait for the host
      if (!sums.empty()) require_finite(at::cat(sums), 0, windows);
    for (at::Tensor& result : results) result = result.to(x.device());
    return results;
  }

  // Every voxel that is kept is in some window's output.
  void require_cover(const at::Tensor& y, const Shape& roi,
                     const std::vector<Shape>& windows) const {
    for (std::size_t a = 0; a < roi.size(); ++a) {
      const std::int64_t out = y.size(static_cast<std::int64_t>(a) + 2), missing = roi[a] - out;
      const std::size_t pair = 2 * (roi.size() - 1 - a);
      std::int64_t step = 0;  // from one window to the next
      for (std::size_t w = 1; w < windows.size(); ++w)
        step = std::max(step, windows[w][a] - windows[w - 1][a]);
      const std::int64_t front = missing / 2, back = missing - front;
      if (missing == 0 || (extra(pair) >= front && extra(pair + 1) >= back && step <= out))
        continue;
      const double overlap = 1 - static_cast<double>(out) / static_cast<double>(roi[a]);
      throw Error(Exit::usage, "network \"" + p.net + "\" makes " + std::to_string(out) +
                                   " of a window's " + std::to_string(roi[a]) +
                                   " voxels along axis " + std::to_string(a) +
                                   "; for all of the image it needs overlap " +
                                   Json(overlap).dump() + " and extra_input_padding " +
                                   std::to_string(front) + ", " + std::to_string(back) + " there");
    }
  }

  // Of a coarse output: how many of a window's voxels one of it is of.
  static std::int64_t factor(const Shape& roi, const at::Tensor& y, std::size_t a) {
    return roi[a] / y.size(static_cast<std::int64_t>(a) + 2);
  }
  // Windows, and where they begin, are whole voxels of a coarse output.
  void require_even(const at::Tensor& x, const at::Tensor& y, const Shape& roi,
                    const std::vector<Shape>& windows) const {
    for (std::size_t a = 0; a < roi.size(); ++a) {
      const auto axis = static_cast<std::int64_t>(a) + 2;
      const std::int64_t n = factor(roi, y, a);
      const bool even = std::all_of(windows.begin(), windows.end(),
                                    [&](const Shape& begin) { return begin[a] % n == 0; });
      if (even && roi[a] == n * y.size(axis) && x.size(axis) % n == 0) continue;
      throw Error(Exit::usage,
                  "network \"" + p.net + "\" makes " + std::to_string(y.size(axis)) +
                      " of a window's " + std::to_string(roi[a]) + " voxels along axis " +
                      std::to_string(a) + ", where \"" + p.key + "\" has " +
                      std::to_string(x.size(axis)) +
                      "; roi_size, the distance between windows (roi_size (1 - overlap)) and the "
                      "image (divisible_pad) must be multiples of what its levels divide by");
    }
  }

  static Shape after_first(const at::Tensor& t) {
    Shape axes(static_cast<std::size_t>(t.dim() - 1));
    std::iota(axes.begin(), axes.end(), 1);
    return axes;
  }
  // Of windows from the `first` on the sums of their logits: of what is NaN or infinite none is
  // finite.
  static void require_finite(const at::Tensor& sums, std::int64_t first,
                             const std::vector<Shape>& windows) {
    const at::Tensor here = sums.to(at::kCPU);
    for (std::int64_t i = 0; i < here.numel(); ++i) {
      if (std::isfinite(here.const_data_ptr<float>()[i])) continue;
      const auto window = static_cast<std::size_t>(first + i) % windows.size();
      throw Error(Exit::non_finite, "the network's logits are NaN or infinite in window " +
                                        std::to_string(window + 1) + " of " +
                                        std::to_string(windows.size()) + ", at voxel " +
                                        list_text(windows[window]));
    }
  }

  // Logits beside the image, as in MONAI: a whole volume of them may be more than a device has.
  // Classes where the network is, so that a byte a voxel is all that leaves it.
  at::Tensor room(const at::Tensor& x, const at::Tensor& y, const Shape& roi) const {
    Shape shape = x.sizes().vec();
    shape[1] = p.argmax ? 1 : y.size(1);
    for (std::size_t a = 0; a < roi.size(); ++a)
      if (coarse())
        shape[a + 2] /= factor(roi, y, a);
      else
        shape[a + 2] -= roi[a] - y.sizes()[a + 2];
    return at::empty(
        shape, at::dtype(p.argmax ? at::kByte : at::kFloat).device(blend_device(p.argmax ? y : x)));
  }
  at::Tensor finished(const at::Tensor& y) const {
    return p.argmax ? kernels::argmax_members(y) : y.to(at::kFloat);
  }

  // The mean over all combinations of flips.
  Outputs predicted(Network::Tensors inputs, const Shape& roi) const {
    const at::Device place = net_->begins_at(inputs[0].device());
    for (at::Tensor& t : inputs) t = t.to(place);
    const at::Tensor x = inputs[0];
    Outputs sums = passed(inputs, roi);
    const std::size_t flips = std::size_t{1} << p.mirror_axes.size();
    if (flips == 1) return sums;
    for (at::Tensor& sum : sums) sum = sum.to(at::kFloat, false, true);
    for (std::size_t flip = 1; flip < flips; ++flip) {
      Shape axes;
      for (std::size_t a = 0; a < p.mirror_axes.size(); ++a)
        if (flip >> a & 1) axes.push_back(p.mirror_axes[a] + 2);
      inputs[0] = x.flip(axes);
      const Outputs flipped = passed(inputs, roi);
      for (std::size_t o = 0; o < sums.size(); ++o) sums[o].add_(flipped[o].flip(axes));
    }
    for (at::Tensor& sum : sums) sum.div_(static_cast<double>(flips));
    return sums;
  }

  Outputs passed(Network::Tensors inputs, const Shape& roi) const {
    const at::Tensor windows = inputs[0];
    for (const std::int64_t a : p.mirror_axes)
      if (a >= static_cast<std::int64_t>(roi.size()))
        throw Error(Exit::usage, "mirror_axes names axis " + std::to_string(a) + " of " +
                                     std::to_string(roi.size()));
    const std::int64_t axis = p.slice_axis + 2;
    if (p.slice_axis >= 0) inputs[0] = windows.squeeze(axis);
    Outputs all = net_->forward(inputs, p.output_key.size());
    for (at::Tensor& y : all) {
      if (p.slice_axis >= 0) y = y.unsqueeze(axis);
      bool fits = y.dim() == windows.dim();
      for (std::size_t a = 0; fits && a < roi.size(); ++a)
        fits = y.size(static_cast<std::int64_t>(a) + 2) <= roi[a];
      if (!fits)
        throw Error(Exit::usage, "network \"" + p.net + "\" makes " + list_text(y.sizes()) +
                                     " of " + list_text(windows.sizes()) +
                                     "; the window's extent is needed, or less");
    }
    return all;
  }

  // The view of a window: the last axes of t, from `at`, as large as `roi`.
  static at::Tensor part(at::Tensor t, const Shape& at, const Shape& roi) {
    const std::int64_t in_front = t.dim() - static_cast<std::int64_t>(roi.size());
    for (std::size_t a = 0; a < roi.size(); ++a) t = t.narrow(in_front + a, at[a], roi[a]);
    return t;
  }

  // The weights of a window's middle, as large as y, or of every so many of its voxels. Kept, since
  // to move them waits for a device.
  const BlendWindow& importance(const Shape& roi, const at::Tensor& y, at::Device home) {
    const Shape size = y.sizes().slice(2).vec();
    if (roi_ == roi && window_.size == size && home_ == home) return window_;
    window_ = blend_window(roi, p.mode, p.sigma_scale, p.sums == "float16");
    window_.size = size;
    for (std::size_t a = 0; a < window_.weights.size(); ++a) {
      at::Tensor& weights = window_.weights[a];
      const std::int64_t every = coarse() ? factor(roi, y, a) : 1;
      weights = coarse() ? weights.slice(0, every / 2, {}, every)  // the nearest to their middles
                         : weights.narrow(0, (roi[a] - size[a]) / 2, size[a]);
      weights = weights.contiguous().to(home);
    }
    roi_ = roi;
    home_ = home;
    return window_;
  }

  std::size_t axes_ = 3;                   // of the image
  bool sees_whole_ = false;                // this firing's is no larger than a window
  Network::Tensors further_;               // of this firing, [N, ...]
  std::shared_ptr<Network> shared_, net_;  // the network, and that of it which predicts now
  BlendWindow window_;                     // of the last firing, whose window was
  Shape roi_;
  at::Device home_ = at::kCPU;
};

const Register<SlidingWindow> registered;

}  // namespace
}  // namespace sluice
