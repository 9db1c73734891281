// What a detector of boxes is made of, as in monai.apps.detection.utils 1.6.1 and torchvision 0.26:
// anchors, how boxes overlap, a box as a change of an anchor, which anchor is whose, and which
// boxes of many are kept. Boxes are [N, 2 axes], least corners first, the end exclusive, in voxels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice {

// Zero-centred anchors, rounded to whole half extents. Of sizes and ratios [R, axes - 1] (1 : r :
// r'), each with each: all sizes of the first ratio first; or of extents [A, axes].
at::Tensor sized_anchors(const std::vector<double>& sizes,
                         const std::vector<std::vector<double>>& aspect_ratios);
at::Tensor shaped_anchors(const at::Tensor& shapes);
// `cells` around each voxel of a map of extents `grid` that an image of extents `image` became:
// [voxels * A, 2 axes], the last axis first. `swapped`: the first two coordinates change places.
at::Tensor grid_anchors(const at::Tensor& cells, at::IntArrayRef image, at::IntArrayRef grid,
                        bool swapped);

// Intersection over union [N, M].
at::Tensor box_iou(const at::Tensor& a, const at::Tensor& b);
// ... of box n with box n, [N], less the share of the hull that neither fills (Rezatofighi et al.
// 2019).
at::Tensor box_pair_giou(const at::Tensor& a, const at::Tensor& b);

// Steps of the centre in extents of the anchor, then logarithms of the extents' ratios, each times
// its weight (BoxCoder); and back, where no extent grows by more than 1000 / 16.
at::Tensor encoded_boxes(const at::Tensor& boxes, const at::Tensor& anchors,
                         const std::vector<double>& weights);
at::Tensor decoded_boxes(const at::Tensor& codes, const at::Tensor& anchors,
                         const std::vector<double>& weights);

// The box of each anchor, int64 [A]; none: below_match, or between_matches, which does not count as
// background either.
inline constexpr std::int64_t below_match = -1, between_matches = -2;
// By overlap (torchvision's Matcher). `low_quality`: a box without a match has the anchors that
// overlap it most.
at::Tensor overlap_matches(const at::Tensor& boxes, const at::Tensor& anchors, double foreground,
                           double background, bool low_quality);
// By how the overlaps of the nearest anchors are distributed (ATSSMatcher; Zhang et al. 2020).
// `voxels`: of each level's map; `each`: anchors of a voxel.
at::Tensor atss_matches(const at::Tensor& boxes, const at::Tensor& anchors,
                        const std::vector<std::int64_t>& voxels, std::int64_t each,
                        std::int64_t candidates, bool center_in_box);

// Rows of `boxes` in the order of their scores, without those that overlap one before them of the
// same label by more than `overlap`; at most `most`.
at::Tensor kept_boxes(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& labels,
                      double overlap, std::int64_t most);

}  // namespace sluice
