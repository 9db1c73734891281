// Some of the channels of a channels-last image, copied position by position.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/base/team.h"
#include "kernels/net/norm_act.h"

namespace sluice {

// From channel `first` on; `step` bytes from one position to the next.
struct Channels {
  char* data;
  std::int64_t step;
  Channels(const at::Tensor& image, std::int64_t first)
      : data(static_cast<char*>(image.data_ptr()) + first * image.element_size()),
        step(image.size(1) * image.element_size()) {}
};

// As many as the image with fewer of them has.
inline void copy_channels(const Channels& from, const Channels& to, std::int64_t positions) {
  const auto bytes = static_cast<std::size_t>(std::min(from.step, to.step));
  team_for(positions, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(to.data + i * to.step, from.data + i * from.step, bytes);
  });
}

// Room for an image as that one, but of so many channels.
inline at::Tensor image_with(std::int64_t channels, const at::Tensor& like) {
  auto size = like.sizes().vec();
  size[1] = channels;
  return at::empty(size, like.options(), channels_last_of(like));
}

// The channels [first, first + count) as an image of their own.
inline at::Tensor copied_channels(const at::Tensor& image, std::int64_t first, std::int64_t count) {
  const at::Tensor some = image_with(count, image);
  copy_channels({image, first}, {some, 0}, image.numel() / image.size(1));
  return some;
}

}  // namespace sluice
