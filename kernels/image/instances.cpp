#include "kernels/image/instances.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "kernels/image/components.h"
#include "kernels/image/filters.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/morphology.h"
#include "kernels/image/spatial.h"

namespace sluice {
namespace {

// A binary heap in its plainest form: scikit-image's, whose order among markers of equal height is
// the order of its swaps. The standard library's heap swaps otherwise.
class Front {
 public:
  struct Voxel {
    double height;
    std::int64_t age, at;
    bool before(const Voxel& other) const {
      return height != other.height ? height < other.height : age < other.age;
    }
  };
  bool empty() const { return all_.empty(); }
  void push(const Voxel& v) {
    all_.push_back(v);
    for (std::size_t child = all_.size() - 1; child > 0;) {
      const std::size_t parent = (child - 1) / 2;
      if (!all_[child].before(all_[parent])) return;
      std::swap(all_[child], all_[parent]);
      child = parent;
    }
  }
  Voxel pop() {
    const Voxel first = all_.front();
    all_.front() = all_.back();
    all_.pop_back();
    for (std::size_t i = 0;;) {
      std::size_t least = i;
      for (const std::size_t child : {2 * i + 1, 2 * i + 2})
        if (child < all_.size() && all_[child].before(all_[least])) least = child;
      if (least == i) return first;
      std::swap(all_[i], all_[least]);
      i = least;
    }
  }

 private:
  std::vector<Voxel> all_;
};

struct Step {
  std::int64_t x, y, z;
  std::int64_t length() const { return std::abs(x) + std::abs(y) + std::abs(z); }
};

std::vector<Step> steps(int connectivity) {
  std::vector<Step> all;
  for (std::int64_t x = -1; x <= 1; ++x)
    for (std::int64_t y = -1; y <= 1; ++y)
      for (std::int64_t z = -1; z <= 1; ++z)
        if (const Step s{x, y, z}; s.length() > 0 && s.length() <= connectivity) all.push_back(s);
  std::stable_sort(all.begin(), all.end(),
                   [](const Step& a, const Step& b) { return a.length() < b.length(); });
  return all;
}

// Brought to 0 .. 1.
at::Tensor stretched(const at::Tensor& x, const char* what) {
  const at::Tensor low = x.min(), range = x.max() - low;
  if (range.item<float>() == 0) throw DataError(std::string(what) + " has one value everywhere");
  return (x - low) / range;
}

// Numbers of components, in the order of their first voxels, without those of less than `least`.
at::Tensor numbered(const at::Tensor& mask, std::int64_t least) {
  const at::Tensor set = to_volume(mask)[0].ne(0).contiguous();
  const Components found = find_components(set, 1);
  at::Tensor out = at::zeros_like(set, at::kInt);
  auto* to = out.mutable_data_ptr<std::int32_t>();
  for (const auto& run : found.runs)
    if (found.size[static_cast<std::size_t>(run.component)] >= least)
      std::fill(to + run.row * set.size(2) + run.begin, to + run.row * set.size(2) + run.end,
                run.component + 1);
  return out.view(mask.sizes());
}

}  // namespace

at::Tensor watershed(const at::Tensor& image, const at::Tensor& markers, const at::Tensor& mask,
                     int connectivity) {
  const at::Tensor heights = image.to(at::kDouble).contiguous(), set = mask.ne(0).contiguous();
  at::Tensor out = markers.to(at::kInt).masked_fill(set.logical_not(), 0).contiguous();
  const Shape3 n = shape_of(to_volume(heights));
  const double* height = heights.const_data_ptr<double>();
  const bool* inside = set.const_data_ptr<bool>();
  auto* label = out.mutable_data_ptr<std::int32_t>();
  const auto all = steps(connectivity);
  Front front;
  for (std::int64_t i = 0; i < out.numel(); ++i)
    if (label[i] != 0) front.push({height[i], 0, i});
  for (std::int64_t age = 0; !front.empty();) {
    const Front::Voxel from = front.pop();
    const std::int64_t at = from.at;
    const std::int64_t x = at / (n[1] * n[2]), y = at / n[2] % n[1], z = at % n[2];
    for (const Step& s : all) {
      const Shape3 to{x + s.x, y + s.y, z + s.z};
      if (to[0] < 0 || to[1] < 0 || to[2] < 0 || to[0] >= n[0] || to[1] >= n[1] || to[2] >= n[2])
        continue;
      const std::int64_t next = (to[0] * n[1] + to[1]) * n[2] + to[2];
      if (!inside[next] || label[next] != 0) continue;
      label[next] = label[at];
      // Water that stands this high goes no lower, as scikit-image has it.
      front.push({std::max(height[next], from.height), ++age, next});
    }
  }
  return out;
}

at::Tensor without_small(const at::Tensor& mask, std::int64_t least) {
  return numbered(mask, least).ne(0).to(at::kByte);
}

at::Tensor nuclei_mask(const at::Tensor& logits, bool softmax, double threshold,
                       std::int64_t min_object_size) {
  const at::Tensor set =
      softmax ? logits.argmax(0, true).ne(0) : logits.to(at::kFloat).sigmoid().ge(threshold);
  return without_small(set, min_object_size);
}

at::Tensor instance_border(const at::Tensor& mask, const at::Tensor& hover, std::int64_t kernel) {
  const at::Tensor maps = hover.to(at::kFloat);
  const auto jump = [&](std::int64_t channel, std::int64_t axis) {
    const at::Tensor map = stretched(maps[channel], "a map of distances").unsqueeze(0).unsqueeze(0);
    const at::Tensor slope = sobel(map, kernel, {axis}, true, "reflect")[0];
    return 1 - stretched(slope, "the slope of a map of distances");
  };
  return (at::maximum(jump(0, 1), jump(1, 0)) - (1 - mask.to(at::kFloat))).clamp_min(0);
}

at::Tensor nuclei_depth(const at::Tensor& mask, const at::Tensor& border) {
  const at::Tensor inside = (1 - border.to(at::kFloat)) * mask.to(at::kFloat);
  return from_volume(gaussian(to_volume(inside), {1, 1}), 2).neg();
}

at::Tensor nuclei_markers(const at::Tensor& mask, const at::Tensor& border, double threshold,
                          double radius, std::int64_t min_object_size) {
  const at::Tensor sure = mask.ne(0).logical_and(border.lt(threshold)).to(at::kByte);
  const at::Tensor filled =
      with_filled_holes(to_volume(sure)[0].contiguous(), 2, 2).to(at::kByte).contiguous();
  // A ball in a plane of one voxel is the disk.
  return numbered(dilated(eroded(filled, radius), radius).view(mask.sizes()), min_object_size);
}

}  // namespace sluice
