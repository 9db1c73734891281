// Where a stage's voxels come from: the cached volume (copied or resampled), or the stage before
// (as it is, blurred along an axis, at low resolution, or its three colours mixed). For host and
// device.
//
// A fetch is made once a channel and gives a row for each (x, y). The row finds where the value of
// a voxel z lies (`find`; `cheap`: with hardly a branch) and then reads it there, mostly without
// branches, so that a device has the reads of several voxels under way at once. A Place{} can be
// read too; what it gives means nothing.
//
// Invariant: nothing outside the view or the scratch volume is ever read, whatever the job's
// matrix, moves and displacement say.
#pragma once

#include <type_traits>

#include "kernels/augment/augment_job.h"
#include "kernels/augment/color_math.h"

namespace sluice::kernels {

// Voxel p of the sampled grid for an output row: at z it is start + z * step, a step of -1, 0 or 1.
struct MovedRow {
  std::int32_t start[3], step[3];
  SLUICE_HD MovedRow(const AugmentMoves& m, int x, int y) {
    for (int d = 0; d < 3; ++d) {
      const int along = m.from[d], sign = m.sign[d] < 0 ? -1 : 1;
      start[d] = m.shift[d] + sign * (along == 0 ? x : along == 1 ? y : 0);
      step[d] = along == 2 ? sign : 0;
    }
  }
};

// Voxels as they are; `fill` outside the view.
template <class T>
struct CopyFetch {
  const AugmentJob* job;
  const T* data;
  SLUICE_HD CopyFetch(const AugmentJob& j, int channel)
      : job(&j), data(static_cast<const T*>(j.in.data) + channel * j.in.channel_stride) {}

  struct Row {
    const T* data;
    std::int32_t begin, end;  // z inside the view
    std::int64_t base, step;
    float gain, offset, fill;
    static constexpr bool cheap = true;
    struct Place {
      std::int64_t at = 0;  // the view's first voxel where it is outside
      bool inside = false;
    };
    SLUICE_HD Place find(int z) const {
      const bool inside = z >= begin && z < end;
      return {inside ? base + z * step : 0, inside};
    }
    SLUICE_HD float read(const Place& p) const {
      const float v = mad(to_float(data[p.at]), gain, offset);
      return p.inside ? v : fill;
    }
  };
  SLUICE_HD Row row(int x, int y) const {
    const AugmentView& v = job->in;
    const MovedRow p(job->moves, x, y);
    Row r{data, 0, 0, 0, 0, v.gain, v.offset, job->sampling.fill};
    std::int64_t begin = 0, end = job->out.size[2];
    for (int d = 0; d < 3; ++d) {
      r.base += p.start[d] * v.stride[d];
      r.step += p.step[d] * v.stride[d];
      const std::int64_t start = p.start[d], size = v.size[d];
      if (p.step[d] == 0) {
        if (start < 0 || start >= size) end = 0;
        continue;
      }
      const std::int64_t first = p.step[d] > 0 ? -start : start - size + 1;
      begin = clamp_to(first, begin, end);  // inside are [first, first + size)
      end = clamp_to(first + size, std::int64_t{0}, end);
    }
    r.begin = static_cast<std::int32_t>(begin);
    r.end = static_cast<std::int32_t>(end);
    return r;
  }
};

// What a coordinate's two taps along an axis of n voxels are, in float about a voxel nearby.
template <Padding P>
SLUICE_HD inline std::int32_t linear_at(std::int32_t n, double c, float& w0, float& w1) {
  const double o = floor(clamp_to(c, -1e6, 1e6));
  const auto axis = SampledAxis<float>::make(n, 1, false).from(static_cast<std::int32_t>(o));
  return linear_tap<P>(axis, static_cast<float>(c - o), w0, w1);
}
template <Padding P>
SLUICE_HD inline std::int32_t nearest_at(std::int32_t n, double c, std::int32_t& inside) {
  const double o = floor(clamp_to(c, -1e6, 1e6));
  const auto axis = SampledAxis<float>::make(n, 1, false).from(static_cast<std::int32_t>(o));
  return nearest_tap<P>(axis, static_cast<float>(c - o), inside);
}

// A component of the displacement at voxel p: linear between the nodes around it.
SLUICE_HD inline float displacement(const AugmentSampling& s, int component,
                                    const std::int32_t* p) {
  std::int64_t low[3], high[3];
  float share[3];
  for (int d = 0; d < 3; ++d) {
    const std::int32_t last = s.node_count[d] - 1;
    std::int32_t cell = p[d] > 0 ? p[d] / s.node_step : 0;
    cell = cell < last ? cell : last;
    low[d] = cell;
    high[d] = cell < last ? cell + 1 : last;
    share[d] = static_cast<float>(p[d] - cell * s.node_step) / static_cast<float>(s.node_step);
  }
  const std::int64_t ny = s.node_count[1], nz = s.node_count[2];
  const float* grid = s.nodes + component * s.node_count[0] * ny * nz;
  const auto between = [&](float a, float b, float t) { return mad(b, t, a * (1 - t)); };
  const auto line = [&](std::int64_t z) {
    const float a = grid[(low[0] * ny + low[1]) * nz + z];
    const float b = grid[(low[0] * ny + high[1]) * nz + z];
    const float c = grid[(high[0] * ny + low[1]) * nz + z];
    const float d = grid[(high[0] * ny + high[1]) * nz + z];
    return between(between(a, b, share[1]), between(c, d, share[1]), share[0]);
  };
  const float a = line(low[2]), b = line(high[2]);
  return mad(b - a, share[2], a);
}

// Voxels between voxels: an affine map, displaced where there are nodes.
template <class T, Interpolation I>
struct ResampleFetch {
  const AugmentJob* job;
  const T* data;
  SLUICE_HD ResampleFetch(const AugmentJob& j, int channel)
      : job(&j), data(static_cast<const T*>(j.in.data) + channel * j.in.channel_stride) {}

  struct Row {
    const T* data;
    const AugmentJob* job;
    MovedRow p;
    static constexpr bool cheap = false;
    struct NearestPlace {
      std::int64_t at = 0;
      bool inside = false;
    };
    struct LinearPlace {
      std::int64_t at = 0;  // the lowest of the eight voxels
      float w[3][2] = {};
    };
    using Place = std::conditional_t<I == Interpolation::nearest, NearestPlace, LinearPlace>;
    SLUICE_HD Place find(int z) const {
      const AugmentSampling& s = job->sampling;
      std::int32_t voxel[3];
      double q[3], c[3];
      for (int d = 0; d < 3; ++d) {
        voxel[d] = p.start[d] + z * p.step[d];
        q[d] = voxel[d];
      }
      if (s.nodes)
        for (int d = 0; d < 3; ++d) q[d] += displacement(s, d, voxel);
      for (int d = 0; d < 3; ++d) {
        const double* m = s.matrix + 4 * d;
        c[d] = fma(m[2], q[2], fma(m[1], q[1], fma(m[0], q[0], m[3])));
      }
      if (s.padding == Padding::zeros) return place<Padding::zeros>(c);
      if (s.padding == Padding::border) return place<Padding::border>(c);
      return place<Padding::reflection>(c);
    }
    template <Padding P>
    SLUICE_HD Place place(const double* c) const {
      const AugmentView& v = job->in;
      Place out;
      if constexpr (I == Interpolation::nearest) {
        out.inside = true;
        for (int d = 0; d < 3; ++d) {
          std::int32_t in;
          out.at += nearest_at<P>(v.size[d], c[d], in) * v.stride[d];
          out.inside &= in != 0;
        }
      } else {
        for (int d = 0; d < 3; ++d)
          out.at += linear_at<P>(v.size[d], c[d], out.w[d][0], out.w[d][1]) * v.stride[d];
      }
      return out;
    }
    SLUICE_HD float read(const Place& p) const {
      const AugmentView& v = job->in;
      const auto get = [&](std::int64_t o) {
        return mad(to_float(data[p.at + o]), v.gain, v.offset);
      };
      if constexpr (I == Interpolation::nearest) {
        const float value = get(0);
        return p.inside ? value : 0.0f;
      } else {
        std::int64_t step[3];
        for (int d = 0; d < 3; ++d) step[d] = v.size[d] > 1 ? v.stride[d] : 0;
        const auto pair = [&](std::int64_t o) {
          return mad(get(o + step[2]), p.w[2][1], get(o) * p.w[2][0]);
        };
        const auto plane = [&](std::int64_t o) {
          return mad(pair(o + step[1]), p.w[1][1], pair(o) * p.w[1][0]);
        };
        return mad(plane(step[0]), p.w[0][1], plane(0) * p.w[0][0]);
      }
    }
  };
  SLUICE_HD Row row(int x, int y) const { return {data, job, MovedRow(job->moves, x, y)}; }
};

// A scratch volume's channel: contiguous floats of the output's size.
struct ScratchFetch {
  const float* data;
  std::int64_t ny, nz;
  SLUICE_HD ScratchFetch(const AugmentJob& j, const float* channel)
      : data(channel), ny(j.out.size[1]), nz(j.out.size[2]) {}
  struct Row {
    const float* data;
    static constexpr bool cheap = true;
    using Place = int;
    SLUICE_HD int find(int z) const { return z; }
    SLUICE_HD float read(int z) const { return data[z]; }
  };
  SLUICE_HD Row row(int x, int y) const { return {data + (x * ny + y) * nz}; }
};

// The Gaussian along one axis, zeros outside. Taps are added in order, the first first.
struct BlurFetch {
  const AugmentJob* job;
  const float* data;
  int axis;
  SLUICE_HD BlurFetch(const AugmentJob& j, const float* channel, int a)
      : job(&j), data(channel), axis(a) {}
  struct Row {
    const float *data, *taps;  // taps: the middle one
    std::int64_t step;         // to the next voxel of the axis
    int reach, size, at_row, axis;
    static constexpr bool cheap = false;
    using Place = float;  // the value, since its loop is a branch
    SLUICE_HD float find(int z) const {
      const int here = axis == 2 ? z : at_row;
      const int low = here < reach ? -here : -reach;
      const int high = size - 1 - here < reach ? size - 1 - here : reach;
      float sum = 0;
      for (int t = low; t <= high; ++t) sum = mad(taps[t], data[z + t * step], sum);
      return sum;
    }
    SLUICE_HD float read(float value) const { return value; }
  };
  SLUICE_HD Row row(int x, int y) const {
    const std::int64_t ny = job->out.size[1], nz = job->out.size[2];
    const int reach = job->reach[axis];
    return {data + (x * ny + y) * nz,
            job->taps[axis] + reach,
            axis == 0   ? ny * nz
            : axis == 1 ? nz
                        : 1,
            reach,
            job->out.size[axis],
            axis == 0 ? x : y,
            axis};
  }
};

// The volume as if it had only n[d] voxels an axis: nearest down, linear up, as torch's interpolate
// does both.
struct LowResolutionFetch {
  const AugmentJob* job;
  const float* data;
  float small[3];
  SLUICE_HD LowResolutionFetch(const AugmentJob& j, const float* channel, const AugmentOp& op)
      : job(&j), data(channel), small{op.a[0], op.a[1], op.a[2]} {}

  // The two voxels of the full axis that voxel i lies between, and the second one's share.
  SLUICE_HD static void taps(int full, float small, int i, int* voxel, float& share) {
    const float n = static_cast<float>(full);
    float c = mad(small / n, static_cast<float>(i) + 0.5f, -0.5f);
    c = c > 0 ? c : 0;
    float cell = floorf(c);
    cell = cell < small - 1 ? cell : small - 1;
    share = c - cell;
    share = share < 1 ? share : 1;
    for (int k = 0; k < 2; ++k) {
      const float at = cell + static_cast<float>(k);
      const float held = at < small - 1 ? at : small - 1;
      const int source = static_cast<int>(floorf(held * (n / small)));
      voxel[k] = source < full - 1 ? source : full - 1;
    }
  }
  struct Row {
    const float* data;
    std::int64_t line[2][2];
    float share_x, share_y, small_z;
    int nz;
    SLUICE_HD float plane(std::int64_t z) const {
      const float a = mad(data[line[0][1] + z], share_y, data[line[0][0] + z] * (1 - share_y));
      const float b = mad(data[line[1][1] + z], share_y, data[line[1][0] + z] * (1 - share_y));
      return mad(b, share_x, a * (1 - share_x));
    }
    static constexpr bool cheap = true;
    struct Place {
      int voxel[2] = {0, 0};
      float share = 0;
    };
    SLUICE_HD Place find(int z) const {
      Place p;
      taps(nz, small_z, z, p.voxel, p.share);
      return p;
    }
    SLUICE_HD float read(const Place& p) const {
      return mad(plane(p.voxel[1]), p.share, plane(p.voxel[0]) * (1 - p.share));
    }
  };
  SLUICE_HD Row row(int x, int y) const {
    const std::int64_t ny = job->out.size[1], nz = job->out.size[2];
    int vx[2], vy[2];
    Row r{data, {}, 0, 0, small[2], job->out.size[2]};
    taps(job->out.size[0], small[0], x, vx, r.share_x);
    taps(job->out.size[1], small[1], y, vy, r.share_y);
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 2; ++k) r.line[i][k] = (vx[i] * ny + vy[k]) * nz;
    return r;
  }
};

// One colour of a voxel of three, from all of them: a saturation or a turn of the hue.
struct ColorFetch {
  const AugmentOp* op;
  const float* red;
  int channel;
  std::int64_t ny, nz, voxels;
  SLUICE_HD ColorFetch(const AugmentJob& j, const float* from, int c, const AugmentOp& o)
      : op(&o), channel(c), ny(j.out.size[1]), nz(j.out.size[2]), voxels(j.out.size[0] * ny * nz) {
    red = from - channel * voxels;
  }
  struct Row {
    const AugmentOp* op;
    const float* red;
    std::int64_t voxels;
    int channel;
    static constexpr bool cheap = true;
    using Place = Rgb;  // the colours themselves: which operation it is, is a branch
    SLUICE_HD Rgb find(int z) const { return {red[z], red[z + voxels], red[z + 2 * voxels]}; }
    SLUICE_HD float read(const Rgb& c) const {
      if (op->kind == AugmentKind::hue) return turned(c, op->a[0]).channel(channel);
      return in_unit(blended(op->a[0], c.channel(channel), op->a[1], gray_of(c)));
    }
  };
  SLUICE_HD Row row(int x, int y) const { return {op, red + (x * ny + y) * nz, voxels, channel}; }
};

}  // namespace sluice::kernels
