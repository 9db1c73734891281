#include "kernels/image/spatial.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/into.h"
#include "kernels/base/word.h"

namespace sluice {
namespace {

struct Strides {
  std::int64_t base;
  std::array<std::int64_t, 3> step;  // in the source, for one step of each output axis
};

Strides source_strides(const Reorder& r, const Shape3& source, const Box& box) {
  const std::array<std::int64_t, 3> stride{source[1] * source[2], source[2], 1};
  Strides s{0, {}};
  for (int o = 0; o < 3; ++o) {
    const int from = r.from[o];
    const std::int64_t last = box.start[from] + box.size[from] - 1;
    s.step[o] = r.flip[o] ? -stride[from] : stride[from];
    s.base += (r.flip[o] ? last : box.start[from]) * stride[from];
  }
  return s;
}

// Rows that run along the source's rows, forwards or backwards.
template <class Word>
void copy_rows(const Word* in, Word* out, const Shape3& n, const Strides& s) {
  for (std::int64_t x = 0; x < n[0]; ++x)
    for (std::int64_t y = 0; y < n[1]; ++y, out += n[2]) {
      const Word* row = in + s.base + x * s.step[0] + y * s.step[1];
      if (s.step[2] == 1)
        std::memcpy(out, row, static_cast<std::size_t>(n[2]) * sizeof(Word));
      else
        for (std::int64_t z = 0; z < n[2]; ++z) out[z] = row[-z];
    }
}

// The source's rows lie along output axis a, 0 or 1: tiles small enough for L1 are transposed.
template <class Word>
void copy_transposed(const Word* in, Word* out, const Shape3& n, const Strides& s, int a) {
  constexpr std::int64_t side = 32, deep = 128;  // 16 KB of floats
  const int b = 1 - a;
  const std::array<std::int64_t, 3> to{n[1] * n[2], n[2], 1};
  for (std::int64_t u = 0; u < n[b]; ++u)
    for (std::int64_t z0 = 0; z0 < n[2]; z0 += deep)
      for (std::int64_t t0 = 0; t0 < n[a]; t0 += side) {
        const std::int64_t z1 = std::min(z0 + deep, n[2]), t1 = std::min(t0 + side, n[a]);
        for (std::int64_t t = t0; t < t1; ++t) {
          const Word* from = in + s.base + u * s.step[b] + t * s.step[a];
          Word* row = out + u * to[b] + t * to[a];
          for (std::int64_t z = z0; z < z1; ++z) row[z] = from[z * s.step[2]];
        }
      }
}

template <class T>
bool any_positive(const T* p, std::int64_t n) {
  int any = 0;
  for (std::int64_t i = 0; i < n; ++i) any |= p[i] > T(0);
  return any != 0;
}

// Each row is only searched outside the z-range known so far, so most voxels are looked at once
// in a vectorised test and none twice.
template <class T>
std::optional<Box> positive_box(const T* p, std::int64_t channels, const Shape3& n) {
  Shape3 low{n[0], n[1], n[2]}, high{-1, -1, -1};
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t x = 0; x < n[0]; ++x)
      for (std::int64_t y = 0; y < n[1]; ++y, p += n[2]) {
        const bool known = x >= low[0] && x <= high[0] && y >= low[1] && y <= high[1];
        const bool left = any_positive(p, std::min(low[2], n[2]));
        const bool right =
            high[2] >= 0 && high[2] + 1 < n[2] && any_positive(p + high[2] + 1, n[2] - high[2] - 1);
        if (!left && !right &&
            (known || high[2] < 0 || !any_positive(p + low[2], high[2] + 1 - low[2])))
          continue;
        if (left) low[2] = std::find_if(p, p + n[2], [](T v) { return v > T(0); }) - p;
        if (left || right) {
          std::int64_t last = n[2] - 1;
          while (!(p[last] > T(0))) --last;
          high[2] = std::max(high[2], last);
        }
        low[0] = std::min(low[0], x), high[0] = std::max(high[0], x);
        low[1] = std::min(low[1], y), high[1] = std::max(high[1], y);
      }
  if (high[0] < 0) return std::nullopt;
  return Box{low, {high[0] + 1 - low[0], high[1] + 1 - low[1], high[2] + 1 - low[2]}};
}

// The same of a volume whose y and z are exchanged, and with it of the result.
Reorder exchanged(const Reorder& r) {
  constexpr int other[3] = {0, 2, 1};
  Reorder e;
  for (int d = 0; d < 3; ++d) {
    e.from[other[d]] = other[r.from[d]];
    e.flip[other[d]] = r.flip[d];
  }
  return e;
}

}  // namespace

at::Tensor to_volume(const at::Tensor& t) {
  at::Tensor volume = t;
  while (volume.dim() < 4) volume = volume.unsqueeze(-1);
  return volume.contiguous();
}

at::Tensor from_volume(const at::Tensor& volume, std::int64_t axes) {
  at::Tensor t = volume;
  while (t.dim() > axes + 1) t = t.squeeze(-1);
  return t;
}

Shape3 shape_of(const at::Tensor& t) {
  Shape3 shape{1, 1, 1};
  for (int d = 1; d < t.dim(); ++d) shape[d - 1] = t.size(d);
  return shape;
}

Shape3 fall_back(const std::vector<std::int64_t>& size, const Shape3& shape, std::int64_t axes) {
  const auto count = static_cast<std::int64_t>(size.size());
  if (count > 1 && count != axes)
    throw DataError(std::to_string(count) + " sizes are given for an image with " +
                    std::to_string(axes) + " spatial axes");
  Shape3 out = shape;
  for (std::int64_t d = 0; d < axes && count > 0; ++d) {
    const std::int64_t wanted = size[count == 1 ? 0 : d];
    if (wanted > 0) out[d] = wanted;
  }
  return out;
}

int spatial_axis(std::int64_t axis, std::int64_t axes) {
  if (axis < -axes || axis >= axes)
    throw DataError("there is no spatial axis " + std::to_string(axis) + " among " +
                    std::to_string(axes));
  return static_cast<int>(axis < 0 ? axis + axes : axis);
}

Box whole(const at::Tensor& volume) { return {{}, shape_of(volume)}; }

std::vector<double> numbers(const Box& b) {
  std::vector<double> out(b.start.begin(), b.start.end());
  out.insert(out.end(), b.size.begin(), b.size.end());
  return out;
}

Affine box_affine(const Box& b) {
  return translation({double(b.start[0]), double(b.start[1]), double(b.start[2])});
}

at::Tensor crop_pad(const at::Tensor& volume, const Box& box, double value,
                    const at::Tensor& into) {
  if (is_picture(volume, box.size[2]))
    return exchanged(crop_pad(exchanged(volume), exchanged(box), value, exchanged(into)));
  const Shape3 n = shape_of(volume);
  Shape3 from, to;  // the part of the output that the volume fills
  bool whole = true;
  for (int d = 0; d < 3; ++d) {
    if (box.size[d] < 1)
      throw DataError("a crop of size " + std::to_string(box.size[d]) + " is empty");
    from[d] = std::clamp<std::int64_t>(-box.start[d], 0, box.size[d]);
    to[d] = std::clamp<std::int64_t>(n[d] - box.start[d], from[d], box.size[d]);
    whole &= from[d] == 0 && to[d] == box.size[d];
  }
  const std::vector<std::int64_t> shape{volume.size(0), box.size[0], box.size[1], box.size[2]};
  const at::Tensor out = room(into, shape, volume.options());
  if (!whole) out.fill_(value);
  const std::size_t word = volume.element_size();
  const auto* in = static_cast<const std::byte*>(volume.const_data_ptr());
  auto* p = static_cast<std::byte*>(out.mutable_data_ptr());
  const std::size_t bytes = static_cast<std::size_t>(to[2] - from[2]) * word;
  for (std::int64_t c = 0; c < volume.size(0); ++c)
    for (std::int64_t x = from[0]; x < to[0]; ++x)
      for (std::int64_t y = from[1]; y < to[1]; ++y) {
        const std::int64_t i = ((c * n[0] + x + box.start[0]) * n[1] + y + box.start[1]) * n[2] +
                               from[2] + box.start[2];
        const std::int64_t o = ((c * box.size[0] + x) * box.size[1] + y) * box.size[2] + from[2];
        std::memcpy(p + o * word, in + i * word, bytes);
      }
  return out;
}

Box centre_box(const Shape3& shape, const Shape3& size, bool symmetric) {
  Box b{{}, size};
  for (int d = 0; d < 3; ++d)
    b.start[d] = size[d] <= shape[d] ? shape[d] / 2 - size[d] / 2
                 : symmetric         ? -((size[d] - shape[d]) / 2)
                                     : 0;
  return b;
}

at::Tensor reorder(const at::Tensor& volume, const Reorder& r) {
  return reorder(volume, r, whole(volume));
}

at::Tensor reorder(const at::Tensor& volume, const Reorder& r, const Box& box,
                   const at::Tensor& into) {
  if (r.from[2] == 2 && is_picture(volume, box.size[2]))
    return exchanged(reorder(exchanged(volume), exchanged(r), exchanged(box), exchanged(into)));
  const Shape3 source = shape_of(volume), n = reorder_shape(r, box.size);
  const at::Tensor out = room(into, {volume.size(0), n[0], n[1], n[2]}, volume.options());
  const Strides s = source_strides(r, source, box);
  const std::int64_t voxels = n[0] * n[1] * n[2], every = source[0] * source[1] * source[2];
  for_word(volume.element_size(), [&](auto word) {
    using Word = decltype(word);
    const auto* in = static_cast<const Word*>(volume.const_data_ptr());
    auto* p = static_cast<Word*>(out.mutable_data_ptr());
    for (std::int64_t c = 0; c < volume.size(0); ++c, in += every, p += voxels)
      if (r.from[2] == 2)
        copy_rows(in, p, n, s);
      else
        copy_transposed(in, p, n, s, r.from[0] == 2 ? 0 : 1);
  });
  return out;
}

Reorder quarter_turns(int k, int a, int b) {
  Reorder r;
  for (int i = 0; i < ((k % 4) + 4) % 4; ++i) {  // one turn: out(a, b) = in(b, n - 1 - a)
    Reorder turn = r;
    turn.from[a] = r.from[b];
    turn.flip[a] = !r.flip[b];
    turn.from[b] = r.from[a];
    turn.flip[b] = r.flip[a];
    r = turn;
  }
  return r;
}

std::optional<Box> bounding_box_of_positive(const at::Tensor& volume) {
  const Shape3 n = shape_of(volume);
  const std::int64_t channels = volume.size(0);
  const auto box = [&](const auto* p) { return positive_box(p, channels, n); };
  switch (volume.scalar_type()) {
    case at::kFloat:
      return box(volume.const_data_ptr<float>());
    case at::kByte:
      return box(volume.const_data_ptr<std::uint8_t>());
    case at::kBool:
      return box(static_cast<const std::uint8_t*>(volume.const_data_ptr()));
    case at::kShort:
      return box(volume.const_data_ptr<std::int16_t>());
    default: {
      const at::Tensor converted = volume.to(at::kFloat);
      return box(converted.const_data_ptr<float>());
    }
  }
}

Shape3 corrected_start(const Shape3& centre, const Shape3& size, const Shape3& shape) {
  Shape3 start;
  for (int d = 0; d < 3; ++d) {
    const std::int64_t s = std::min(size[d], shape[d]);
    // The first centre is size / 2 and the last one shape - (size + 1) / 2, so that an odd crop
    // ends with the axis; with equal sizes exactly one centre is left.
    const std::int64_t first = s / 2, last = std::max(shape[d] - (s + 1) / 2, first);
    start[d] = std::max<std::int64_t>(std::clamp(centre[d], first, last) - size[d] / 2, 0);
  }
  return start;
}

}  // namespace sluice
