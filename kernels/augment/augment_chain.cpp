#include "kernels/augment/augment_chain.h"

#include <algorithm>

namespace sluice::kernels {
namespace {

// What the moves do to a coordinate, as a matrix.
Affine moves_matrix(const AugmentMoves& m) {
  Affine a{};
  a[15] = 1;
  for (int d = 0; d < 3; ++d) {
    a[4 * d + m.from[d]] = m.sign[d];
    a[4 * d + 3] = m.shift[d];
  }
  return a;
}

const char* moved(const AugmentView& v, std::int64_t elements) {
  return static_cast<const char*>(v.data) + elements * voxel_bytes(v.type);
}

}  // namespace

AugmentView view_of(const void* data, VoxelType type, std::int64_t channels, const Shape3& n) {
  AugmentView v;
  v.data = data;
  v.type = type;
  v.channels = static_cast<std::int32_t>(channels);
  for (int d = 0; d < 3; ++d) v.size[d] = static_cast<std::int32_t>(n[d]);
  v.stride[0] = n[1] * n[2];
  v.stride[1] = n[2];
  v.channel_stride = n[0] * n[1] * n[2];
  return v;
}

AugmentOutput output_of(void* data, VoxelType type, std::int64_t channels, const Shape3& n,
                        bool channels_last) {
  AugmentOutput o;
  o.data = data;
  o.type = type;
  const std::int64_t each = channels_last ? channels : 1;
  for (int d = 0; d < 3; ++d) o.size[d] = static_cast<std::int32_t>(n[d]);
  o.stride[0] = n[1] * n[2] * each;
  o.stride[1] = n[2] * each;
  o.stride[2] = each;
  o.channel_stride = channels_last ? 1 : n[0] * n[1] * n[2];
  return o;
}

AugmentChain::AugmentChain(const AugmentView& volume, int axes) : flat_(axes == 2) {
  job_.in = volume;
  for (int d = 0; d < 3; ++d) {
    job_.in.size[axis(d)] = volume.size[d];
    job_.in.stride[axis(d)] = volume.stride[d];
    shape_[axis(d)] = volume.size[d];
  }
}

Shape3 AugmentChain::inner(const Shape3& s) const {
  Shape3 out;
  for (int d = 0; d < 3; ++d) out[axis(d)] = s[d];
  return out;
}

Reorder AugmentChain::inner(const Reorder& r) const {
  Reorder out;
  for (int d = 0; d < 3; ++d) {
    out.from[axis(d)] = axis(r.from[d]);
    out.flip[axis(d)] = r.flip[d];
  }
  return out;
}

Affine AugmentChain::inner(const Affine& m) const {
  Affine out{};
  out[15] = 1;
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 3; ++c) out[4 * axis(r) + axis(c)] = m[4 * r + c];
    out[4 * axis(r) + 3] = m[4 * r + 3];
  }
  return out;
}

Shape3 AugmentChain::shape() const {
  Shape3 out;
  for (int d = 0; d < 3; ++d) out[d] = shape_[axis(d)];
  return out;
}

void AugmentChain::crop_moves(const std::array<std::int64_t, 3>& start) {
  AugmentMoves& m = job_.moves;
  for (int d = 0; d < 3; ++d) m.shift[d] += static_cast<std::int32_t>(m.sign[d] * start[m.from[d]]);
}

bool AugmentChain::crop(const Shape3& start_, const Shape3& size_, float fill) {
  if (placed_) return false;
  const Shape3 start = inner(start_), size = inner(size_);
  bool inside = true;
  for (int d = 0; d < 3; ++d) {
    if (size[d] < 1) return false;
    inside &= start[d] >= 0 && start[d] + size[d] <= shape_[d];
  }
  const bool resampled = job_.sampling.resample;
  // Padding before an operation would be changed by it; a second one has its own value, and
  // would show again what a crop in between has cut off.
  if (!inside && (resampled || valued_ || padded_)) return false;
  if (inside && !resampled && !padded_) {
    for (int d = 0; d < 3; ++d) {
      job_.in.data = moved(job_.in, start[d] * job_.in.stride[d]);
      job_.in.size[d] = static_cast<std::int32_t>(size[d]);
    }
  } else {
    crop_moves(start);
    if (!inside) padded_ = true, job_.sampling.fill = fill;
  }
  shape_ = size;
  return true;
}

void AugmentChain::reorder_moves(const Reorder& r) {
  AugmentMoves& m = job_.moves;
  for (int d = 0; d < 3; ++d) {
    const int a = m.from[d];
    const int k = static_cast<int>(std::find(r.from.begin(), r.from.end(), a) - r.from.begin());
    m.from[d] = static_cast<std::int8_t>(k);
    if (!r.flip[k]) continue;
    m.shift[d] += static_cast<std::int32_t>(m.sign[d] * (shape_[a] - 1));
    m.sign[d] = static_cast<std::int8_t>(-m.sign[d]);
  }
}

bool AugmentChain::reorder(const Reorder& r_) {
  if (placed_) return false;
  const Reorder r = inner(r_);
  if (job_.sampling.resample || padded_) {
    reorder_moves(r);
  } else {
    const AugmentView before = job_.in;
    for (int k = 0; k < 3; ++k) {
      const int a = r.from[k];
      job_.in.size[k] = before.size[a];
      job_.in.stride[k] = r.flip[k] ? -before.stride[a] : before.stride[a];
      if (r.flip[k]) job_.in.data = moved(job_.in, (before.size[a] - 1) * before.stride[a]);
    }
  }
  shape_ = reorder_shape(r, shape_);
  return true;
}

bool AugmentChain::resample(const Affine& to_source, const Shape3& shape, const Resampling& how,
                            const Nodes& nodes) {
  AugmentSampling& s = job_.sampling;
  if (valued_ || padded_ || (s.resample && s.nodes)) return false;
  for (int d = 0; d < 3; ++d)
    if (shape[d] < 1 || (nodes.data && (nodes.count[d] - 1) * nodes.step < shape[d] - 1))
      return false;
  Affine m = inner(to_source);
  if (s.resample) {
    Affine first{};
    std::copy_n(s.matrix, 12, first.begin());
    first[15] = 1;
    m = multiply(multiply(first, moves_matrix(job_.moves)), m);
  } else {
    s.mode = how.mode;
    s.padding = how.padding;
  }
  s.resample = true;
  std::copy_n(m.begin(), 12, s.matrix);
  s.nodes = nodes.data;
  s.node_step = nodes.data ? nodes.step : 1;
  for (int d = 0; d < 3; ++d) s.node_count[d] = static_cast<std::int32_t>(nodes.count[d]);
  job_.moves = {};
  shape_ = inner(shape);
  ++interpolations_;
  return true;
}

bool AugmentChain::affine(const Affine& to_source, const Shape3& shape, const Resampling& how) {
  return resample(to_source, shape, how, {});
}

bool AugmentChain::elastic(const Affine& to_source, const Shape3& shape, const Resampling& how,
                           const Nodes& nodes) {
  if (flat_ || !nodes.data || nodes.step < 1) return false;  // a field has three components
  return resample(to_source, shape, how, nodes);
}

bool AugmentChain::add(const AugmentOp& op) {
  const AugmentKind k = op.kind;
  if (job_.op_count == augment_ops || k == AugmentKind::bias || k == AugmentKind::blur)
    return false;
  if (k == AugmentKind::restore) {  // it belongs to a contrast
    bool found = false;
    for (int i = 0; i < job_.op_count; ++i) found |= job_.ops[i].kind == AugmentKind::contrast;
    if (!found) return false;
  }
  valued_ = true;
  placed_ = placed_ || static_cast<int>(k) >= static_cast<int>(AugmentKind::noise);
  job_.ops[job_.op_count++] = op;
  return true;
}

bool AugmentChain::bias(const std::vector<double>& c) {
  if (flat_ || biased_ || c.size() != bias_terms || job_.op_count == augment_ops) return false;
  std::copy(c.begin(), c.end(), job_.bias);
  biased_ = valued_ = placed_ = true;
  job_.ops[job_.op_count++].kind = AugmentKind::bias;
  return true;
}

bool AugmentChain::blur(const std::vector<std::vector<float>>& taps) {
  if (blurred_ || job_.op_count == augment_ops || taps.size() > 3) return false;
  for (const auto& t : taps)
    if (t.size() % 2 == 0 || t.size() > 2 * blur_reach + 1) return false;
  for (int d = 0; d < 3; ++d) {
    const std::vector<float> t =
        d < static_cast<int>(taps.size()) ? taps[d] : std::vector<float>{1.0f};
    job_.reach[axis(d)] = static_cast<std::int32_t>(t.size() / 2);
    std::copy(t.begin(), t.end(), job_.taps[axis(d)]);
  }
  blurred_ = valued_ = placed_ = true;
  job_.ops[job_.op_count++].kind = AugmentKind::blur;
  return true;
}

bool AugmentChain::low_resolution(const Shape3& size_) {
  const Shape3 size = inner(size_);
  AugmentOp op{AugmentKind::low_resolution};
  for (int d = 0; d < 3; ++d) {
    if (size[d] < 1) return false;
    op.a[d] = static_cast<float>(size[d]);
  }
  return add(op);
}

bool AugmentChain::hole(const Shape3& start_, const Shape3& size_, float value) {
  const Shape3 start = inner(start_), size = inner(size_);
  AugmentOp op{AugmentKind::hole};
  for (int d = 0; d < 3; ++d) {
    op.a[2 * d] = static_cast<float>(start[d]);
    op.a[2 * d + 1] = static_cast<float>(start[d] + size[d]);
  }
  op.a[6] = value;
  return add(op);
}

AugmentJob AugmentChain::job(const AugmentOutput& out) const {
  AugmentJob j = job_;
  j.out = out;
  for (int d = 0; d < 3; ++d) {
    j.out.size[axis(d)] = out.size[d];
    j.out.stride[axis(d)] = out.stride[d];
  }
  return j;
}

}  // namespace sluice::kernels
