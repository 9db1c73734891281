// What a stage does to its voxels once they are fetched: the operations, the statistics that later
// stages want, and the store. For host and device: a host thread walks a row's voxels one by one,
// a warp 32 at a time.
//
// Invariant: an operation's result depends on the voxel's value and its place in the output alone,
// so neither the number of threads nor their order shows.
#pragma once

#include "kernels/augment/augment_fetch.h"
#include "kernels/augment/augment_stages.h"

namespace sluice::kernels {

// Of some voxels of one channel. A NaN is the least and the largest. Sums are double and taken
// about one of the voxels, so a large mean costs no digits and a flat image has a deviation of 0.
struct AugmentSums {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
  float about = 0;              // the first voxel that is not 0
  double sum = 0, squares = 0;  // of x - about, for each x that is not 0
  double count = 0, nonzero = 0;
  SLUICE_HD void add(float v) {
    low = v < low || v != v ? v : low;
    high = v > high || v != v ? v : high;
    count += 1;
    if (v == 0.0f) return;
    if (nonzero == 0) about = v;
    const double d = static_cast<double>(v) - static_cast<double>(about);
    sum += d;
    squares = fma(d, d, squares);
    nonzero += 1;
  }
  SLUICE_HD void add(const AugmentSums& o) {
    low = o.low < low || o.low != o.low ? o.low : low;
    high = o.high > high || o.high != o.high ? o.high : high;
    count += o.count;
    if (o.nonzero == 0) return;
    if (nonzero == 0) about = o.about;
    const double by = static_cast<double>(o.about) - static_cast<double>(about);
    squares += o.squares + by * (2 * o.sum + by * o.nonzero);
    sum += o.sum + by * o.nonzero;
    nonzero += o.nonzero;
  }
  SLUICE_HD double total() const { return sum + nonzero * about; }
};

// Mean and deviation (over n) of all voxels, or of those that are not 0.
struct AugmentMoments {
  double mean = 0, std = 0, n = 0;
  SLUICE_HD AugmentMoments(const AugmentSums& s, bool nonzero) : n(nonzero ? s.nonzero : s.count) {
    if (!(s.nonzero > 0)) return;
    const double shift = s.sum / s.nonzero, own = s.about + shift;
    const double zeros = n - s.nonzero;  // they are the other part, all alike
    const double variance = ((s.squares - s.sum * shift) + own * own * s.nonzero * (zeros / n)) / n;
    mean = own * (s.nonzero / n);
    std = variance < 0 ? 0 : sqrt(variance);  // NaN stays NaN
  }
};

// The channel whose statistics an operation wants where it works on `channel`; or all's.
SLUICE_HD inline int measured_channel(const AugmentOp& op, int channel) {
  return op.channel == each_channel ? channel : op.channel;
}

// A channel's sums as an operation on all channels wants them: of a picture's colours their shares
// of gray.
SLUICE_HD inline AugmentSums counted(const AugmentOp& op, AugmentSums s, int channel,
                                     int channels) {
  if (op.kind == AugmentKind::gray_contrast && channels == 3) {
    s.sum = 3 * gray_share(channel) * s.total();
    s.about = 0;
  }
  return s;
}

// What the operations that want statistics make of them, once a pass.
struct AugmentNumbers {
  float low = 0, range = 1, gain = 1, offset = 0;

  // `old` is of the image before the last contrast.
  SLUICE_HD static AugmentNumbers of(const AugmentOp& op, const AugmentSums& now,
                                     const AugmentSums& old) {
    AugmentNumbers out;
    out.low = now.low;
    out.range = now.high - now.low;
    if (op.kind == AugmentKind::contrast && op.a[1] < 0) out.low = -now.high;
    if (op.kind == AugmentKind::to_range) out.to_range(op, now.low == now.high);
    const bool nonzero = (op.kind == AugmentKind::std_shift && op.a[1] != 0) ||
                         (op.kind == AugmentKind::standardize && op.a[2] != 0);
    const AugmentMoments m(now, nonzero);
    if (op.kind == AugmentKind::mean_contrast) out.offset = static_cast<float>(m.mean);
    if (op.kind == AugmentKind::gray_contrast)
      out.offset = (1 - op.a[0]) * static_cast<float>(m.mean);
    if (op.kind == AugmentKind::std_shift) out.offset = static_cast<float>(op.a[0] * m.std);
    if (op.kind == AugmentKind::standardize) {
      out.low = op.a[3] != 0 ? static_cast<float>(m.mean) : op.a[0];
      out.range = op.a[4] == 0 ? op.a[1] : m.std == 0 ? 1.0f : static_cast<float>(m.std);
    }
    if (op.kind == AugmentKind::restore) {  // MONAI's deviations are over n - 1 here
      const AugmentMoments before(old, false);
      const double unbiased = m.n > 1 ? sqrt(m.n / (m.n - 1)) : 1;
      out.low = static_cast<float>(m.mean);
      out.range = static_cast<float>(m.std * unbiased + 1e-8);
      out.gain = static_cast<float>(before.std * unbiased);
      out.offset = static_cast<float>(before.mean);
    }
    return out;
  }

 private:
  SLUICE_HD void to_range(const AugmentOp& op, bool flat) {
    low = flat ? 0 : low;
    range = flat ? 1 : range;
    gain = flat ? op.a[2] : op.a[0];
    offset = flat ? 0 : op.a[1];
  }
};

// The bias field along one row: what is left of its series is a cubic in z.
struct BiasRow {
  float c[4] = {0, 0, 0, 0};
  double step = 0;

  // P_0 .. P_3 at voxel i of an axis, as kernels/image/bias_field.cpp places it.
  SLUICE_HD static void legendre(double step, int i, double* p) {
    const double x = static_cast<float>(-1.0 + step * static_cast<double>(i));
    p[0] = 1;
    p[1] = x;
    p[2] = (3 * x * x - 1) * 0.5;
    p[3] = (5 * x * p[2] - 2 * x) * (1 / 3.0);
  }
  SLUICE_HD static double step_of(int size) {
    return size > 1 ? 2.0 / static_cast<double>(size - 1) : 0.0;
  }
  SLUICE_HD void prepare(const AugmentJob& job, int x, int y) {
    step = step_of(job.out.size[2]);
    double px[4], py[4], sum[4] = {0, 0, 0, 0};
    legendre(step_of(job.out.size[0]), x, px);
    legendre(step_of(job.out.size[1]), y, py);
    int next = 0;
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4 - i; ++j)
        for (int k = 0; k < 4 - i - j; ++k) sum[k] += job.bias[next++] * px[i] * py[j];
    for (int k = 0; k < 4; ++k) c[k] = static_cast<float>(sum[k]);
  }
  SLUICE_HD float at(int z) const {
    double p[4];
    legendre(step, z, p);
    float v = c[0];
    for (int k = 1; k < 4; ++k) v = mad(c[k], static_cast<float>(p[k]), v);
    return exp_bounded(v);
  }
};

// Standard normal number i of a stream, as add_noise of intensity.h numbers them.
SLUICE_HD inline float normal_at(std::uint64_t i, std::uint64_t counter, std::uint64_t key) {
  const Block4 block = philox(i / 4, counter, key);
  const bool second = (i & 2) != 0;
  float x, y;
  normal_pair_fast(second ? block.v[2] : block.v[0], second ? block.v[3] : block.v[1], x, y);
  return i & 1 ? y : x;
}

// Uniform number i of a stream, as random_displacement of elastic.h numbers them.
SLUICE_HD inline float uniform_at(std::uint64_t i, std::uint64_t counter, std::uint64_t key) {
  const Block4 block = philox(i / 4, counter, key);
  const std::uint32_t low = i & 1 ? block.v[1] : block.v[0];
  const std::uint32_t high = i & 1 ? block.v[3] : block.v[2];
  return unit_float(i & 2 ? high : low);
}

// The same number, of which a compiler for the device knows nothing: it then does not work out for
// all operations beforehand what each would want of it.
SLUICE_HD inline int opaque(int i) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(i));
#endif
  return i;
}

// Voxels z, z + step, ... of a row, before `end`, that are worked on together: their loads overlap,
// and what does not depend on the voxel is done once.
struct AugmentGroup {
  static constexpr int width = 4;
  float v[width];  // from `end` on: anything
  int z, step, end;

  template <class Row>
  SLUICE_HD void fetch(const Row& row) {
    typename Row::Place place[width];
    SLUICE_UNROLL
    for (int k = 0; k < width; ++k) {
      const int at = z + k * step;
      if constexpr (Row::cheap)
        place[k] = row.find(at < end ? at : end - 1);
      else
        place[k] = at < end ? row.find(at) : typename Row::Place{};
    }
    SLUICE_UNROLL
    for (int k = 0; k < width; ++k) v[k] = row.read(place[k]);
  }
  template <class F>
  SLUICE_HD void map(const F& f) {
    SLUICE_UNROLL
    for (int k = 0; k < width; ++k) v[k] = f(v[k]);
  }
  template <class F>
  SLUICE_HD void each(const F& f) {
    SLUICE_UNROLL
    for (int k = 0; k < width; ++k)
      if (z + k * step < end) f(v[k], z + k * step);
  }
};

// One pass over one channel.
struct AugmentPass {
  const AugmentJob* job;
  const AugmentStage& stage;
  int channel;
  float* scratch;          // this channel of the volume that is written; null: the output
  AugmentNumbers numbers;  // for the stage's first operation, where it wants statistics

  SLUICE_HD void with_statistics(const AugmentOp& op, AugmentGroup& g) const {
    const AugmentNumbers& n = numbers;
    switch (op.kind) {
      case AugmentKind::contrast:
        return g.map(Contrast{n.low, n.range, op.a[0], op.a[1]});
      case AugmentKind::mean_contrast:
        return g.map([&](float v) {
          const float y = mad(v - n.offset, op.a[0], n.offset);
          return op.a[1] != 0 ? clamp_to(y, n.low, n.low + n.range) : y;
        });
      case AugmentKind::gray_contrast:
        return g.map([&](float v) { return clamp_to(mad(v, op.a[0], n.offset), 0.0f, 1.0f); });
      case AugmentKind::std_shift:
        return g.map(Shift{n.offset, op.a[1] != 0});
      case AugmentKind::standardize:
        return g.map(Normalize{n.low, n.range, op.a[2] != 0});
      case AugmentKind::to_range:
      case AugmentKind::restore:
        return g.map(Rescale{n.low, n.range, n.gain, n.offset});
      default:
        return;
    }
  }
  // Counted from the volume's first channel.
  SLUICE_HD std::uint64_t number(int x, int y, int z) const {
    const std::int32_t* n = job->out.size;
    const std::int64_t plane = static_cast<std::int64_t>(channel) * n[0] + x;
    return static_cast<std::uint64_t>((plane * n[1] + y) * n[2] + z);
  }
  SLUICE_HD void apply(const AugmentOp& op, AugmentGroup& g, const BiasRow& bias, int x,
                       int y) const {
    const float* a = op.a;
    switch (op.kind) {
      case AugmentKind::linear:
        return g.map(Linear{a[0], a[1]});
      case AugmentKind::normalize:
        return g.map(Normalize{a[0], a[1], a[2] != 0});
      case AugmentKind::rescale:
        return g.map(Rescale{a[0], a[1], a[2], a[3], a[4], a[5]});
      case AugmentKind::shift:
        return g.map(Shift{a[0], a[1] != 0});
      case AugmentKind::noise:
        return g.each([&](float& v, int z) {
          v = noisy(v, a[0], a[1], normal_at(number(x, y, z), op.counter, op.key));
        });
      case AugmentKind::uniform:
        return g.each([&](float& v, int z) {
          v = mad(a[0], mad(uniform_at(number(x, y, z), op.counter, op.key), 2.0f, -1.0f), v);
        });
      case AugmentKind::hole:
        if (x >= a[0] && x < a[1] && y >= a[2] && y < a[3])
          g.each([&](float& v, int z) { v = z >= a[4] && z < a[5] ? a[6] : v; });
        return;
      case AugmentKind::bias:
        return g.each([&](float& v, int z) { v *= bias.at(z); });
      default:
        return with_statistics(op, g);
    }
  }
};

// Voxels z0, z0 + step, ... of row (x, y).
template <class Fetch>
SLUICE_HD inline void augment_row(const AugmentPass& p, const Fetch& fetch, int x, int y, int z0,
                                  int step, AugmentSums& sums) {
  const AugmentJob& job = *p.job;
  const int nz = job.out.size[2];
  const auto row = fetch.row(x, y);
  BiasRow bias;
  for (int i = p.stage.first; i < p.stage.end; ++i)
    if (job.ops[i].kind == AugmentKind::bias) bias.prepare(job, x, y);
  const std::int64_t place =
      p.stage.to >= 0
          ? (static_cast<std::int64_t>(x) * job.out.size[1] + y) * nz
          : p.channel * job.out.channel_stride + x * job.out.stride[0] + y * job.out.stride[1];
  AugmentGroup g;
  g.step = step;
  g.end = nz;
  for (g.z = z0; g.z < nz; g.z += AugmentGroup::width * step) {
    g.fetch(row);
    for (int i = p.stage.first; i < p.stage.end; ++i) {
      const AugmentOp& op = job.ops[i];
      if (op.channel >= 0 && op.channel != p.channel) continue;
      g.z = opaque(g.z);
      p.apply(op, g, bias, x, y);
    }
    if (p.stage.made >= 0) g.each([&](float v, int) { sums.add(v); });
    if (p.stage.to >= 0)
      g.each([&](float v, int z) { p.scratch[place + z] = v; });
    else
      with_voxel(job.out.type, [&](auto type) {
        auto* to = static_cast<decltype(type)*>(job.out.data);
        const std::int64_t along = job.out.stride[2];
        g.each([&](float v, int z) {
          from_float(v, type);
          to[place + z * along] = type;
        });
      });
  }
}

// Calls body(fetch) with the fetch that a stage asks for; `from` is the channel's scratch volume,
// with the other channels' around it.
template <class F>
SLUICE_HD inline void with_source(const AugmentJob& job, int channel, F&& body) {
  with_voxel(job.in.type, [&](auto type) {
    using T = decltype(type);
    if (!job.sampling.resample) return body(CopyFetch<T>(job, channel));
    if (job.sampling.mode == Interpolation::linear)
      return body(ResampleFetch<T, Interpolation::linear>(job, channel));
    return body(ResampleFetch<T, Interpolation::nearest>(job, channel));
  });
}
template <class F>
SLUICE_HD inline void with_scratch(const AugmentJob& job, const AugmentStage& stage, int channel,
                                   const float* from, F&& body) {
  switch (stage.fetch) {
    case AugmentFetch::blur_x:
      return body(BlurFetch(job, from, 0));
    case AugmentFetch::blur_y:
      return body(BlurFetch(job, from, 1));
    case AugmentFetch::blur_z:
      return body(BlurFetch(job, from, 2));
    case AugmentFetch::low_resolution:
      return body(LowResolutionFetch(job, from, job.ops[stage.filter]));
    case AugmentFetch::colors:
      return body(ColorFetch(job, from, channel, job.ops[stage.filter]));
    default:
      return body(ScratchFetch(job, from));
  }
}

}  // namespace sluice::kernels
