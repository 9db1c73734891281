#include "kernels/net/direct_conv.h"

#include <ATen/ATen.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/net/direct_conv_micro.h"
#include "kernels/net/direct_conv_shape.h"

namespace sluice {

static constexpr int max_rows = 64;  // of taps: kernel z times kernel y

bool has_direct_conv() {
  static const bool yes = has_avx512() && __builtin_cpu_supports("avx512bf16");
  return yes;
}

bool direct_conv_pays(const ConvSpec& spec) {
  if (spec.groups > 1) return false;
  const Size3 k = three(spec.kernel, 1);
  return k[0] * k[1] <= max_rows && spec.in * spec.out * k[0] * k[1] * k[2] <= 256 * 1024;
}

std::vector<std::int64_t> conv_output_size(const ConvSpec& s, at::IntArrayRef input) {
  std::vector<std::int64_t> out{input[0], s.out};
  for (std::size_t d = 0; d < s.kernel.size(); ++d) {
    const std::int64_t n = input[d + 2];
    out.push_back(s.transposed
                      ? (n - 1) * s.stride[d] - 2 * s.padding[d] + s.kernel[d] + s.output_padding[d]
                      : (n + 2 * s.padding[d] - s.kernel[d]) / s.stride[d] + 1);
  }
  return out;
}

// ---- packing ------------------------------------------------------------------------------------

namespace {

// The taps of one residue along one axis, by ascending offset (which then goes up by ones).
struct Tap {
  std::int64_t offset, kernel;
};
std::vector<Tap> taps(bool transposed, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                      std::int64_t residue) {
  std::vector<Tap> out;
  for (std::int64_t k = 0; k < kernel; ++k) {
    if (!transposed)
      out.push_back({k - pad, k});
    else if ((residue + pad - k) % stride == 0)
      out.push_back({(residue + pad - k) / stride, k});
  }
  std::sort(out.begin(), out.end(), [](const Tap& a, const Tap& b) { return a.offset < b.offset; });
  return out;
}

}  // namespace

Gather::Gather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint)
    : in_channels_(adjoint ? spec.out : spec.in), out_channels_(adjoint ? spec.in : spec.out) {
  const bool transposed = spec.transposed != adjoint;
  const Size3 stride = three(spec.stride, 1), ones{1, 1, 1};
  kernel_ = three(spec.kernel, 1);
  pad_ = three(spec.padding, 0);
  in_step_ = transposed ? ones : stride;
  out_step_ = transposed ? stride : ones;
  merged_ = out_step_[2] * out_channels_ <= 8;
  if (merged_) block_ = static_cast<int>(16 / (out_step_[2] * out_channels_));
  lanes_ = static_cast<int>(merged_ ? block_ * out_step_[2] * out_channels_ : out_channels_);
  vectors_ = (lanes_ + 15) / 16;
  const at::Tensor w = weight.detach().to(at::kFloat).contiguous();
  for (std::int64_t z = 0; z < out_step_[0]; ++z)
    for (std::int64_t y = 0; y < out_step_[1]; ++y)
      for (std::int64_t x = 0; x < (merged_ ? 1 : out_step_[2]); ++x)
        add_class({z, y, x}, w, transposed);
}

void Gather::add_class(const Size3& residue, const at::Tensor& weight, bool transposed) {
  const Size3 stride = transposed ? out_step_ : in_step_;
  auto axis = [&](int d, std::int64_t r) {
    return taps(transposed, kernel_[d], stride[d], pad_[d], r);
  };
  const auto z = axis(0, residue[0]), y = axis(1, residue[1]);
  // Along x: the window that all outputs of a vector read, and who reads what of it.
  struct Read {
    std::int64_t lane, offset, kernel;  // lane: the first of out_channels_
  };
  std::vector<Read> reads;
  for (int b = 0; b < block_; ++b)
    for (std::int64_t r = merged_ ? 0 : residue[2]; r < (merged_ ? out_step_[2] : residue[2] + 1);
         ++r)
      for (const Tap& t : axis(2, r))
        reads.push_back({(b * (merged_ ? out_step_[2] : 1) + (merged_ ? r : 0)) * out_channels_,
                         t.offset + in_step_[2] * b, t.kernel});
  std::int64_t first = 0, end = 0;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    first = i == 0 ? reads[i].offset : std::min(first, reads[i].offset);
    end = i == 0 ? reads[i].offset + 1 : std::max(end, reads[i].offset + 1);
  }
  Class c;
  c.residue = residue;
  for (const Tap& t : z) c.z.push_back(static_cast<int>(t.offset));
  for (const Tap& t : y) c.y.push_back(static_cast<int>(t.offset));
  c.x = static_cast<int>(first);
  c.pairs = static_cast<int>(((end - first) * in_channels_ + 1) / 2);
  for (const Tap& t : z)
    low_[0] = std::min(low_[0], t.offset), high_[0] = std::max(high_[0], t.offset);
  for (const Tap& t : y)
    low_[1] = std::min(low_[1], t.offset), high_[1] = std::max(high_[1], t.offset);
  low_[2] = std::min(low_[2], first);
  high_[2] = std::max(high_[2], end - 1);

  const std::int64_t rows = static_cast<std::int64_t>(z.size() * y.size());
  c.weights.assign(rows * c.pairs * vectors_ * 32, 0);
  const float* w = weight.const_data_ptr<float>();
  const std::int64_t volume = kernel_[0] * kernel_[1] * kernel_[2];
  for (std::size_t iz = 0; iz < z.size(); ++iz)
    for (std::size_t iy = 0; iy < y.size(); ++iy)
      for (const Read& r : reads)
        for (std::int64_t ci = 0; ci < in_channels_; ++ci) {
          const std::int64_t k = (z[iz].kernel * kernel_[1] + y[iy].kernel) * kernel_[2] + r.kernel;
          const std::int64_t value = (r.offset - first) * in_channels_ + ci;
          const std::int64_t row = static_cast<std::int64_t>(iz * y.size() + iy);
          for (std::int64_t co = 0; co < out_channels_; ++co) {
            const std::int64_t lane = r.lane + co, vector = lane / 16;
            const std::int64_t in_group =
                vector / 2 * 2;  // groups are two vectors, the last maybe one
            const std::int64_t width = std::min<std::int64_t>(2, vectors_ - in_group);
            const std::int64_t at = in_group * rows * c.pairs +
                                    (row * c.pairs + value / 2) * width + (vector - in_group);
            const std::int64_t from = transposed ? ci * out_channels_ + co : co * in_channels_ + ci;
            c.weights[at * 32 + lane % 16 * 2 + value % 2] = to_bf16(w[from * volume + k]);
          }
        }
  classes_.push_back(std::move(c));
}

// ---- running ------------------------------------------------------------------------------------

struct Gather::Job {
  PaddedRows in;  // the sample, with its borders
  Size3 out_size;
  const float* bias;
  const Bf16Bits* residual;
  void* out;
  bool wide;  // out is float32
};

namespace {

// Where a tile's sums go: values `step` apart, one a position.
struct Store {
  const float* bias;         // 16 a vector
  const Bf16Bits* residual;  // as out
  void* out;
  std::int64_t at, step;  // values from `out` on
};

// A tile's sums to memory, plus bias and residual. `last` lanes are real at the last position,
// `lanes` at all others; `acc` has `width` vectors a position, this is the first of them.
template <bool wide>
SLUICE_BF16 void store_tile(const float* acc, int width, std::int64_t positions, int lanes,
                            int last, Store s) {
  const __m512 bias = s.bias ? _mm512_loadu_ps(s.bias) : _mm512_setzero_ps();
  auto mask = static_cast<__mmask16>((1u << lanes) - 1);
  for (std::int64_t i = 0; i < positions; ++i, s.at += s.step) {
    if (i == positions - 1) mask = static_cast<__mmask16>((1u << last) - 1);
    __m512 v = _mm512_add_ps(_mm512_load_ps(acc + i * width * 16), bias);
    if (s.residual) {
      const __m256i r = _mm256_maskz_loadu_epi16(mask, s.residual + s.at);
      v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_maskz_slli_epi32(
                               0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, r), 16)));
    }
    if constexpr (wide)
      _mm512_mask_storeu_ps(static_cast<float*>(s.out) + s.at, mask, v);
    else
      _mm256_mask_storeu_epi16(static_cast<Bf16Bits*>(s.out) + s.at, mask,
                               reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
  }
}

}  // namespace

void Gather::run_row(const Job& job, const Class& c, std::int64_t jz, std::int64_t jy) const {
  const std::int64_t oz = out_step_[0] * jz + c.residue[0], oy = out_step_[1] * jy + c.residue[1];
  const std::int64_t step = merged_ ? out_step_[2] * block_ : out_step_[2];
  const std::int64_t count = (job.out_size[2] - c.residue[2] + step - 1) / step;
  if (oz >= job.out_size[0] || oy >= job.out_size[1] || count <= 0) return;
  std::ptrdiff_t rows[max_rows];
  int n_rows = 0;
  for (int z : c.z)
    for (int y : c.y)
      rows[n_rows++] = job.in.offset(in_step_[0] * jz + z, in_step_[1] * jy + y, c.x);
  const std::int64_t row_out = (oz * job.out_size[1] + oy) * job.out_size[2];
  alignas(64) float acc[micro_tile * 16];
  MicroTask t{rows, n_rows, c.pairs, nullptr, in_step_[2] * block_ * in_channels_ * 2,
              4,    0,      nullptr, acc,     false};
  for (int v = 0; v < vectors_; v += 2) {
    const int width = std::min(2, vectors_ - v);
    const std::int64_t most = micro_tile / width, tiles = (count + most - 1) / most;
    const std::int64_t m = (count + tiles - 1) / tiles;
    const Micro micro = find_micro(1, static_cast<int>(m), width);
    t.weights = reinterpret_cast<const char*>(c.weights.data() +
                                              static_cast<std::int64_t>(v) * n_rows * c.pairs * 32);
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t j = std::min(tile * m, count - m);  // the last tile may overlap
      t.in = job.in.bytes() + j * t.mstep;
      micro(t);
      const std::int64_t first = j * step + c.residue[2], end = first + (m - 1) * step;
      const std::int64_t real =
          merged_ ? std::min<std::int64_t>(lanes_, (job.out_size[2] - end) * out_channels_)
                  : lanes_;
      for (int b = 0; b < width; ++b) {
        const int from = (v + b) * 16;
        (job.wide
             ? store_tile<true>
             : store_tile<false>)(acc + b * 16, width, m, std::min(16, lanes_ - from),
                                  static_cast<int>(std::min<std::int64_t>(16, real - from)),
                                  {job.bias ? job.bias + from : nullptr, job.residual, job.out,
                                   (row_out + first) * out_channels_ + from, step * out_channels_});
      }
    }
  }
}

void Gather::run_sample(const Job& job) const {
  const std::int64_t jz = (job.out_size[0] + out_step_[0] - 1) / out_step_[0];
  const std::int64_t jy = (job.out_size[1] + out_step_[1] - 1) / out_step_[1];
  team_for(jz, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t z = begin; z < end; ++z)
      for (const Class& c : classes_)
        for (std::int64_t y = 0; y < jy; ++y) run_row(job, c, z, y);
  });
}

void Gather::run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                 at::Tensor& out) const {
  const Size3 size = spatial(in), out_size = spatial(out);
  std::vector<float> lane_bias(vectors_ * 16, 0.f);
  if (bias.defined())
    for (int i = 0; i < lanes_; ++i) lane_bias[i] = bias.const_data_ptr<float>()[i % out_channels_];
  Size3 need;  // positions that taps reach, from low_ on
  for (int d = 0; d < 3; ++d) {
    const std::int64_t step = out_step_[d] * (d == 2 ? block_ : 1);
    const std::int64_t last = (out_size[d] + step - 1) / step - 1;
    need[d] = in_step_[d] * (d == 2 ? block_ : 1) * last + high_[d] - low_[d] + 1;
  }
  const bool wide = out.scalar_type() == at::kFloat;
  const std::int64_t in_volume = in.numel() / in.size(0), out_volume = out.numel() / out.size(0);
  PaddedRows rows(size, in_channels_, low_, need);
  for (std::int64_t n = 0; n < in.size(0); ++n) {
    rows.fill(static_cast<const Bf16Bits*>(in.const_data_ptr()) + n * in_volume);
    const std::int64_t at = n * out_volume;
    run_sample({rows, out_size, bias.defined() ? lane_bias.data() : nullptr,
                residual.defined() ? static_cast<const Bf16Bits*>(residual.const_data_ptr()) + at
                                   : nullptr,
                static_cast<char*>(out.data_ptr()) + at * (wide ? 4 : 2), wide});
  }
}

}  // namespace sluice
