#include "kernels/image/anchors.h"

#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>

#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr double least = std::numeric_limits<float>::epsilon();

at::Tensor low(const at::Tensor& boxes) { return boxes.slice(-1, 0, boxes.size(-1) / 2); }
at::Tensor high(const at::Tensor& boxes) { return boxes.slice(-1, boxes.size(-1) / 2); }
at::Tensor extents(const at::Tensor& boxes) { return high(boxes) - low(boxes); }
at::Tensor centres(const at::Tensor& boxes) { return (low(boxes) + high(boxes)) / 2; }
at::Tensor volume(const at::Tensor& extents) { return extents.clamp_min(0).prod(-1); }

at::Tensor row(const std::vector<double>& numbers, const at::Tensor& like) {
  return at::tensor(numbers).to(like.options());
}

// Of boxes that broadcast.
struct Overlap {
  at::Tensor both, either, iou;
  Overlap(const at::Tensor& a, const at::Tensor& b)
      : both(volume(at::min(high(a), high(b)) - at::max(low(a), low(b)))),
        either(extents(a).prod(-1) + extents(b).prod(-1) - both),
        iou(both / (either + least)) {}
};

}  // namespace

at::Tensor sized_anchors(const std::vector<double>& sizes,
                         const std::vector<std::vector<double>>& aspect_ratios) {
  std::vector<at::Tensor> shapes;
  const at::Tensor scales = at::tensor(sizes, at::kFloat);
  for (const std::vector<double>& ratios : aspect_ratios) {
    // In float32, as MONAI does it: anchors are rounded.
    at::Tensor all = at::cat({at::ones({1}), at::tensor(ratios, at::kFloat)});
    all = all / (ratios.size() == 1 ? all[1].sqrt() : at::pow(all[1] * all[2], 1 / 3.0));
    shapes.push_back(scales.unsqueeze(1) * all.unsqueeze(0));
  }
  return shaped_anchors(at::cat(shapes));
}

at::Tensor shaped_anchors(const at::Tensor& shapes) {
  const at::Tensor half = shapes / 2;
  return at::cat({-half, half}, 1).round();
}

at::Tensor grid_anchors(const at::Tensor& cells, at::IntArrayRef image, at::IntArrayRef grid,
                        bool swapped) {
  std::vector<at::Tensor> along;
  for (std::size_t d = 0; d < grid.size(); ++d) {
    const std::int64_t stride = image[d] / grid[d];
    along.push_back(at::arange(grid[d], cells.options()) * stride + stride / 2);
  }
  std::vector<at::Tensor> places = at::meshgrid(along, "ij");
  for (at::Tensor& p : places) p = p.reshape({-1});
  if (swapped) std::swap(places[0], places[1]);
  const at::Tensor centre = at::stack(places, 1);
  const at::Tensor both = at::cat({centre, centre}, 1);
  return (both.unsqueeze(1) + cells.unsqueeze(0)).reshape({-1, cells.size(1)});
}

at::Tensor box_iou(const at::Tensor& a, const at::Tensor& b) {
  return Overlap(a.unsqueeze(1), b.unsqueeze(0)).iou;
}

at::Tensor box_pair_giou(const at::Tensor& a, const at::Tensor& b) {
  const Overlap o(a, b);
  const at::Tensor hull = volume(at::max(high(a), high(b)) - at::min(low(a), low(b)));
  return o.iou - (hull - o.either) / (hull + least);
}

at::Tensor encoded_boxes(const at::Tensor& boxes, const at::Tensor& anchors,
                         const std::vector<double>& weights) {
  const at::Tensor wide = extents(anchors);
  return at::cat({(centres(boxes) - centres(anchors)) / wide, (extents(boxes) / wide).log()}, 1) *
         row(weights, boxes);
}

at::Tensor decoded_boxes(const at::Tensor& codes, const at::Tensor& anchors,
                         const std::vector<double>& weights) {
  const at::Tensor steps = codes / row(weights, codes), wide = extents(anchors);
  const at::Tensor centre = low(steps) * wide + centres(anchors);
  const at::Tensor half = high(steps).clamp_max(std::log(1000.0 / 16)).exp() * wide / 2;
  return at::cat({centre - half, centre + half}, 1);
}

at::Tensor overlap_matches(const at::Tensor& boxes, const at::Tensor& anchors, double foreground,
                           double background, bool low_quality) {
  const at::Tensor iou = box_iou(boxes, anchors);
  const auto [best, nearest] = iou.max(0);
  at::Tensor matches = nearest.masked_fill(best < foreground, between_matches)
                           .masked_fill(best < background, below_match);
  if (!low_quality) return matches;
  return at::where(iou.eq(iou.amax(1, true)).any(0), nearest, matches);
}

at::Tensor atss_matches(const at::Tensor& boxes, const at::Tensor& anchors,
                        const std::vector<std::int64_t>& voxels, std::int64_t each,
                        std::int64_t candidates, bool center_in_box) {
  const at::Tensor centre = centres(anchors);
  const at::Tensor distances =
      (centres(boxes).unsqueeze(1) - centre.unsqueeze(0)).square().sum(2).sqrt();
  std::vector<at::Tensor> nearest;
  std::int64_t begin = 0;
  for (const std::int64_t n : voxels) {
    const auto count = std::min(candidates * each, n);
    nearest.push_back(
        std::get<1>(distances.slice(1, begin, begin + n * each).topk(count, 1, /*largest=*/false)) +
        begin);
    begin += n * each;
  }
  const at::Tensor chosen = at::cat(nearest, 1), iou = box_iou(boxes, anchors);
  if (chosen.size(1) <= 1) {
    at::Tensor matches = at::full({anchors.size(0)}, below_match, chosen.options());
    return matches.index_put_({chosen.flatten()}, at::zeros({}, chosen.options()));
  }
  const at::Tensor overlaps = iou.gather(1, chosen);
  at::Tensor matched = overlaps >= overlaps.mean(1, true) +
                                       overlaps.std(at::IntArrayRef{1}, /*unbiased=*/true, true);
  if (center_in_box) {
    const at::Tensor place = centre.index({chosen});  // [boxes, candidates, axes]
    matched = matched.logical_and(
        at::min(place - low(boxes).unsqueeze(1), high(boxes).unsqueeze(1) - place).amin(2) > 0.01);
  }
  constexpr double none = -std::numeric_limits<double>::infinity();
  const at::Tensor of_anchors = at::full_like(iou, none).scatter(
      1, chosen, overlaps.masked_fill(matched.logical_not(), none));
  const auto [best, box] = of_anchors.max(0);
  return box.masked_fill(best == none, below_match);
}

at::Tensor kept_boxes(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
                      double overlap, std::int64_t most) {
  const at::Tensor order = std::get<1>(scores.sort(/*stable=*/true, 0, /*descending=*/true));
  if (order.size(0) == 0) return order;
  // Boxes of different labels are moved apart, as in MONAI: its rounding is the same.
  const at::Tensor apart =
      (boxes + (labels.to(boxes.scalar_type()) * (boxes.max() + 1)).unsqueeze(1))
          .index({order})
          .to(at::kCPU, at::kFloat)
          .contiguous();
  std::vector<std::int64_t> kept;
  at::Tensor left = at::arange(apart.size(0), at::kLong);
  while (left.size(0) > 0 && std::ssize(kept) < most) {
    const std::int64_t best = left[0].item<std::int64_t>();
    kept.push_back(best);
    left = left.slice(0, 1);
    const at::Tensor iou = box_iou(apart.index({left}), apart.slice(0, best, best + 1)).flatten();
    left = left.index({iou <= overlap});
  }
  return order.index({at::tensor(kept, order.options())});
}

}  // namespace sluice
