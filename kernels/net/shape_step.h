// Steps that put numbers elsewhere or more of them: concatenation, flattening, doubling.
#pragma once

#include "kernels/net/net.h"

namespace sluice {

// Along the channels, of two values and more.
struct ConcatStep final : Step {
  std::vector<std::int64_t> channels;  // of each input
  std::string kind() const override { return "concat"; }
  // A DataError where they differ in more than their channels.
  Size output_size(const std::vector<Size>& in) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// Concatenated along the channels, and a part of them, of channels-last images of any device:
// as rows of a table, in words of up to 8 bytes. (LibTorch takes images of five axes value by
// value.)
at::Tensor concatenated(const std::vector<at::Tensor>& all);
at::Tensor channels_of(const at::Tensor& t, std::int64_t first, std::int64_t count);

// All but the first axis become one, channel by channel: of images that lie so nothing is moved.
struct FlattenStep final : Step {
  std::string kind() const override { return "flatten"; }
  Layout layout() const override { return Layout::channels_first; }
  Size output_size(const std::vector<Size>& in) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// Linear interpolation whose voxels lie at the middles of halves (align_corners=False).
struct DoubleStep final : Step {
  std::string kind() const override { return "double"; }
  Size output_size(const std::vector<Size>& in) const override;
  at::Tensor forward(Frame& f) const override;
  void backward(Frame& f, const at::Tensor& grad) const override;
};

// The gradient upstream of a linear doubling of all spatial axes (align_corners false), axis by
// axis: LibTorch's own on a CUDA device adds in any order.
at::Tensor doubling_backward(at::Tensor grad);

}  // namespace sluice
