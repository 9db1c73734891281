#include "kernels/image/boxes.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/base/error.h"
#include "kernels/image/resizing.h"

namespace sluice {
namespace {

using Columns = std::vector<at::Tensor>;

std::string shape_text(const at::Tensor& t) { return c10::str(t.sizes()); }

// In which order a mode has the standard one's columns.
std::vector<std::int64_t> order_of(const std::string& mode) {
  if (mode == "xxyy") return {0, 2, 1, 3};
  if (mode == "xxyyzz") return {0, 3, 1, 4, 2, 5};
  if (mode == "xyxyzz") return {0, 1, 3, 4, 2, 5};
  if (mode.size() == 4) return {0, 1, 2, 3};
  return {0, 1, 2, 3, 4, 5};
}
bool is_centred(const std::string& mode) { return mode.starts_with("cc"); }
bool has_extents(const std::string& mode) {
  return is_centred(mode) || mode == "xywh" || mode == "xyzwhd";
}

std::int64_t axes_for(const at::Tensor& boxes, const std::string& mode) {
  if (boxes.dim() != 2 || boxes.size(1) != std::ssize(mode))
    throw DataError("boxes " + shape_text(boxes) + " are not of mode " + mode);
  return boxes.size(1) / 2;
}

}  // namespace

std::int64_t box_axes(const at::Tensor& boxes, const std::string& key) {
  if (boxes.dim() != 2 || (boxes.size(1) != 4 && boxes.size(1) != 6))
    throw DataError("field \"" + key + "\" has shape " + shape_text(boxes) +
                    "; boxes are [N, 4] or [N, 6]");
  return boxes.size(1) / 2;
}

at::Tensor to_standard_boxes(const at::Tensor& boxes, const std::string& mode) {
  const std::int64_t axes = axes_for(boxes, mode);
  if (has_extents(mode)) {
    const at::Tensor extents = boxes.narrow(1, axes, axes), at = boxes.narrow(1, 0, axes);
    const at::Tensor low = is_centred(mode) ? at - extents / 2 : at;
    return at::cat({low, low + extents}, 1);
  }
  Columns columns(static_cast<std::size_t>(2 * axes));
  const auto order = order_of(mode);
  for (std::size_t i = 0; i < order.size(); ++i)
    columns[static_cast<std::size_t>(order[i])] = boxes.select(1, static_cast<std::int64_t>(i));
  return at::stack(columns, 1);
}

at::Tensor from_standard_boxes(const at::Tensor& boxes, const std::string& mode) {
  const std::int64_t axes = axes_for(boxes, mode);
  if (has_extents(mode)) {
    const at::Tensor low = boxes.narrow(1, 0, axes), extents = boxes.narrow(1, axes, axes) - low;
    return at::cat({is_centred(mode) ? low + extents / 2 : low, extents}, 1);
  }
  Columns columns;
  for (const std::int64_t i : order_of(mode)) columns.push_back(boxes.select(1, i));
  return at::stack(columns, 1);
}

at::Tensor box_corners(const at::Tensor& boxes) {
  const std::int64_t axes = boxes.size(1) / 2;
  std::vector<at::Tensor> corners;
  for (std::int64_t z = 0; z < (axes == 3 ? 2 : 1); ++z)
    for (const auto& [x, y] : {std::pair{0, 0}, {1, 0}, {1, 1}, {0, 1}}) {
      Columns one{boxes.select(1, x * axes), boxes.select(1, y * axes + 1)};
      if (axes == 3) one.push_back(boxes.select(1, z * axes + 2));
      corners.push_back(at::stack(one, 1));
    }
  return at::stack(corners, 1);
}

at::Tensor boxes_around(const at::Tensor& points) {
  return at::cat({points.amin(1), points.amax(1)}, 1);
}

at::Tensor affine_boxes(const at::Tensor& boxes, const Affine& affine) {
  const std::int64_t axes = boxes.size(1) / 2;
  const at::Tensor m = at::tensor(std::vector<double>(affine.begin(), affine.end()), at::kDouble)
                           .view({4, 4})
                           .narrow(0, 0, axes)
                           .to(at::kFloat);
  const auto moved = [&](const at::Tensor& points) {
    return points.to(at::kFloat).matmul(m.narrow(1, 0, axes).t()) + m.select(1, 3);
  };
  const at::Tensor a = moved(boxes.narrow(1, 0, axes)), b = moved(boxes.narrow(1, axes, axes));
  return at::cat({at::minimum(a, b), at::maximum(a, b)}, 1).to(boxes.scalar_type());
}

at::Tensor reorder_boxes(const at::Tensor& boxes, const Reorder& r, const Shape3& shape) {
  const std::int64_t axes = boxes.size(1) / 2;
  Columns low, high;
  for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d) {
    const int from = r.from[d];
    const at::Tensor a = boxes.select(1, from), b = boxes.select(1, from + axes);
    const std::int64_t n = shape[static_cast<std::size_t>(from)];
    low.push_back(r.flip[d] ? n - b : a);
    high.push_back(r.flip[d] ? n - a : b);
  }
  low.insert(low.end(), high.begin(), high.end());
  return at::stack(low, 1);
}

CroppedBoxes crop_boxes(const at::Tensor& boxes, const Shape3& start, const Shape3& end) {
  const std::int64_t axes = boxes.size(1) / 2;
  at::Tensor cut = boxes.to(at::kFloat).clone(), keep = at::ones({boxes.size(0)}, at::kBool);
  for (std::size_t d = 0; d < static_cast<std::size_t>(axes); ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    const std::int64_t last = std::max(end[d], start[d]);
    for (const std::int64_t column : {axis, axis + axes})
      cut.select(1, column).clamp_(start[d], last).sub_(start[d]);
    keep = keep.logical_and(cut.select(1, axis + axes).ge(cut.select(1, axis) + 1));
  }
  return {cut.to(boxes.scalar_type()), keep};
}

at::Tensor box_masks(const at::Tensor& boxes, const at::Tensor& labels,
                     const std::vector<std::int64_t>& shape, std::int64_t background,
                     bool ellipse) {
  std::vector<std::int64_t> sizes = shape;
  sizes.insert(sizes.begin(), std::max<std::int64_t>(labels.size(0), 1));
  at::Tensor out = at::full(sizes, background, at::kShort);
  const at::Tensor whole = boxes.to(at::kInt).to(at::kLong).contiguous();
  const at::Tensor value = labels.to(at::kLong).contiguous();
  const auto axes = static_cast<std::size_t>(boxes.size(1) / 2);
  for (std::int64_t n = 0; n < boxes.size(0); ++n) {
    const std::int64_t* b = whole.const_data_ptr<std::int64_t>() + n * 2 * std::ssize(shape);
    const std::int64_t label = value.const_data_ptr<std::int64_t>()[n];
    if (label <= background)
      throw DataError("label " + std::to_string(label) + " of box " + std::to_string(n) +
                      " is not above bg_label " + std::to_string(background));
    at::Tensor room = out[n];
    Shape3 size{1, 1, 1};
    bool inside = true, some = true;
    for (std::size_t d = 0; d < axes; ++d) {
      const std::int64_t low = b[d], high = b[d + axes];
      inside = inside && low >= 0 && high <= shape[d];
      some = some && high > low;
      if (!inside || !some) continue;
      size[d] = high - low;
      room = room.narrow(static_cast<std::int64_t>(d), low, size[d]);
    }
    if (!inside)
      throw DataError("box " + std::to_string(n) + " is not inside the image of " +
                      c10::str(at::IntArrayRef(shape)) + " voxels");
    if (!some) continue;
    if (!ellipse) {
      room.fill_(label);
      continue;
    }
    // A ball in a cube of the longest extent, squeezed by the nearest voxel.
    const std::int64_t longest = std::max({size[0], size[1], size[2]});
    const at::Tensor steps =
        (at::arange(longest, at::kDouble) - static_cast<double>(longest - 1) / 2).square();
    at::Tensor far = steps.view({-1, 1, 1}) + steps.view({1, -1, 1});
    Shape3 cube{longest, longest, 1};
    if (axes == 3) far = far + steps.view({1, 1, -1}), cube[2] = longest;
    const double radius = static_cast<double>(longest) / 2;
    const at::Tensor ball = at::where(far.le(radius * radius), label, background)
                                .to(at::kShort)
                                .view({1, cube[0], cube[1], cube[2]});
    room.copy_(resize(ball, size, Resizing::nearest).view(room.sizes()));
  }
  return out;
}

}  // namespace sluice
