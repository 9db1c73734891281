#include "kernels/net/direct_conv.h"

#include <ATen/ATen.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/base/simd.h"
#include "kernels/base/team.h"
#include "kernels/base/transpose.h"
#include "kernels/net/direct_conv_grouped.h"
#include "kernels/net/direct_conv_micro.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/direct_conv_tiles.h"
#include "kernels/net/direct_conv_winograd.h"

namespace sluice {

static constexpr int max_rows = 64;                        // of taps: kernel z times kernel y
static constexpr std::int64_t heavy_weights = 512 * 1024;  // bytes
static constexpr std::int64_t cached_input = 768 * 1024;   // bytes
static constexpr std::int64_t sums_of_block = 16 * 1024;   // that go on from one tap to the next
// Of the rectangle's words, and fewer. A rectangle of numbers reads each word for two vectors at
// once.
static double list_pays(Products p, bool by_tiles) {
  return by_tiles ? 0.1 : p == Products::avx512 ? 0.6 : 0.8;
}

std::optional<Products> products_for(at::ScalarType type, CpuLevel level) {
  const bool is_float = type == at::kFloat;
  if (level == CpuLevel::none || (!is_float && type != at::kBFloat16)) return std::nullopt;
  if (level == CpuLevel::avx2) return Products::avx2;
  if (is_float || level == CpuLevel::avx512) return Products::avx512;
  return level == CpuLevel::amx ? Products::tiles : Products::pairs;
}

bool has_direct_conv(const ConvSpec& spec, at::ScalarType type) {
  const auto products = products_for(type);
  if (!products) return false;
  if (is_grouped(spec)) {
    const ConvSpec bundle = bundle_of(spec);
    const bool as_float = type == at::kBFloat16 && numbers_a_word(*products) == 1;
    return winograd_fits(bundle, type, *products) || (as_float && has_direct_conv(bundle, type));
  }
  if (is_dilated(spec)) return winograd_fits(spec, type, *products);
  const Size3 k = three(spec.kernel, 1);
  return is_depthwise(spec) || (spec.groups == 1 && k[0] * k[1] <= max_rows);
}

std::vector<std::int64_t> conv_output_size(const ConvSpec& s, at::IntArrayRef input) {
  std::vector<std::int64_t> out{input[0], s.out}, dilation = s.dilation;
  dilation.resize(s.kernel.size(), 1);
  for (std::size_t d = 0; d < s.kernel.size(); ++d) {
    const std::int64_t n = input[d + 2];
    out.push_back(s.transposed
                      ? (n - 1) * s.stride[d] - 2 * s.padding[d] + s.kernel[d] + s.output_padding[d]
                      : (n + 2 * s.padding[d] - (s.kernel[d] - 1) * dilation[d] - 1) / s.stride[d] +
                            1);
  }
  return out;
}

// ---- packing ------------------------------------------------------------------------------------

Gather::Gather(const ConvSpec& spec, const at::Tensor& weight, bool adjoint, Products products,
               at::ScalarType type, at::IntArrayRef out)
    : spec_(spec),
      products_(products),
      type_(type),
      tile_(micro_tile_of(products)),
      in_channels_(adjoint ? spec.out : spec.in),
      out_channels_(adjoint ? spec.in : spec.out) {
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
  if (winograd_pays(spec, type, products, weight, out)) {
    winograd_ = std::make_shared<const WinogradGather>(spec, weight, adjoint, products, type);
    return;
  }
  if (is_grouped(spec)) {
    grouped_ = std::make_shared<const GroupedGather>(spec, weight, adjoint, products, type, out);
    return;
  }
  if (is_depthwise(spec)) {
    depthwise_.emplace(spec, weight, adjoint, products, type);
    return;
  }
  if (PlaneGather::fits(spec, adjoint, products)) {
    planes_.emplace(spec, weight, adjoint, products, type);
    return;
  }
  const at::Tensor w = weight.detach().to(at::kFloat).contiguous();
  for (std::int64_t z = 0; z < out_step_[0]; ++z)
    for (std::int64_t y = 0; y < out_step_[1]; ++y)
      for (std::int64_t x = 0; x < (merged_ ? 1 : out_step_[2]); ++x)
        if (!add_class({z, y, x}, w, transposed)) {
          *this = Gather(spec, weight, adjoint, without_tiles(products), type);
          return;
        }
}

// Where the taps of one class find their weights, and where those go.
struct Gather::Pack {
  struct Read {  // along x: the window that all outputs of a vector read, and who reads what of it
    std::int64_t lane, offset, kernel;  // lane: the first of out_channels_
  };
  const Gather& g;
  Class& c;
  const float* from;
  bool transposed;
  std::vector<Tap> z, y;
  std::vector<Read> reads;
  std::int64_t first;  // offset

  void channels(std::int64_t begin, std::int64_t end) const;
  void spread(const std::uint32_t* kernels, std::int64_t ci, std::int64_t co) const;
  void spread_whole(const std::uint32_t* kernels, std::int64_t ci, std::int64_t co) const;
  std::int64_t kernel_of(const Tap& tz, const Tap& ty, const Read& r) const {
    return (tz.kernel * g.kernel_[1] + ty.kernel) * g.kernel_[2] + r.kernel;
  }
  // How far to the right a number goes in its word, from the upper half.
  int shift_of(std::int64_t value) const {
    return numbers_a_word(g.products_) == 2 && value % 2 == 0 ? 16 : 0;
  }
  // The word of a lane for one value of the window.
  std::uint32_t& word(std::int64_t row, std::int64_t value, std::int64_t lane) const {
    const std::int64_t vector = lane / 16, each = numbers_a_word(g.products_);
    const std::int64_t group = vector / g.tile_.vectors * g.tile_.vectors;
    const std::int64_t width = std::min<std::int64_t>(g.tile_.vectors, g.vectors_ - group);
    const auto rows = static_cast<std::int64_t>(z.size() * y.size());
    const std::int64_t at =
        group * rows * c.words + (row * c.words + value / each) * width + (vector - group);
    return c.weights[at * 16 + lane % 16];
  }
};

// The weights of some input channels: 16 outputs' kernels at a time, channel by channel, so that
// lines of memory are met once; of small kernels, as many channels as stand one after another.
void Gather::Pack::channels(std::int64_t begin, std::int64_t end) const {
  const std::int64_t volume = g.kernel_[0] * g.kernel_[1] * g.kernel_[2], out = g.out_channels_;
  const std::int64_t to_next = (transposed ? 1 : g.in_channels_) * volume;
  const std::int64_t together = transposed ? 1 : std::max<std::int64_t>(1, 16 / volume);
  Buffer<std::uint32_t> kernels(together * volume * 16);
  for (std::int64_t co = 0; co < out; co += 16)
    for (std::int64_t ci = begin; ci < end; ci += together) {
      const std::int64_t some = std::min(together, end - ci);
      kernels_in_lanes(from + ci * (transposed ? out : 1) * volume + co * to_next, to_next,
                       std::min<std::int64_t>(16, out - co), some * volume,
                       g.type_ == at::kBFloat16, kernels.data());
      for (std::int64_t i = 0; i < some; ++i)
        if (!g.merged_ && co + 16 <= out)
          spread_whole(kernels.data() + i * volume * 16, ci + i, co);
        else
          spread(kernels.data() + i * volume * 16, ci + i, co);
    }
}

void Gather::Pack::spread(const std::uint32_t* kernels, std::int64_t ci, std::int64_t co) const {
  const std::int64_t n = std::min<std::int64_t>(16, g.out_channels_ - co);
  std::int64_t row = 0;
  for (const Tap& tz : z)
    for (const Tap& ty : y) {
      for (const Read& r : reads) {
        const std::uint32_t* const bits = kernels + 16 * kernel_of(tz, ty, r);
        const std::int64_t value = (r.offset - first) * g.in_channels_ + ci, lane = r.lane + co;
        std::uint32_t* to = &word(row, value, lane);
        for (std::int64_t l = 0; l < n; ++l) {  // 16 words side by side, or those of two vectors
          if (l > 0 && (lane + l) % 16 == 0) to = &word(row, value, lane + l) - l;
          to[l] |= bits[l] >> shift_of(value);
        }
      }
      ++row;
    }
}

// The same where a vector of lanes is 16 channels.
void Gather::Pack::spread_whole(const std::uint32_t* kernels, std::int64_t ci,
                                std::int64_t co) const {
  for (const Read& r : reads) {
    const std::int64_t value = (r.offset - first) * g.in_channels_ + ci;
    std::uint32_t* to = &word(0, value, co);
    const std::int64_t step = &word(1, value, co) - to;
    simd([&, shift = shift_of(value)]() SLUICE_INLINE {
      for (const Tap& tz : z)
        for (const Tap& ty : y) {
          U16 words, more;
          std::memcpy(&words, to, 64);
          std::memcpy(&more, kernels + 16 * kernel_of(tz, ty, r), 64);
          words |= more >> shift;
          std::memcpy(to, &words, 64);
          to += step;
        }
    });
  }
}

// Packs nothing, and says so, where tiles would be too empty.
bool Gather::add_class(const Size3& residue, const at::Tensor& weight, bool transposed) {
  const Size3 stride = transposed ? out_step_ : in_step_;
  auto axis = [&](int d, std::int64_t r) {
    return taps(transposed, kernel_[d], stride[d], pad_[d], r);
  };
  Class c;
  Pack pack{*this,
            c,
            weight.const_data_ptr<float>(),
            transposed,
            axis(0, residue[0]),
            axis(1, residue[1]),
            {},
            0};
  for (int b = 0; b < block_; ++b)
    for (std::int64_t r = merged_ ? 0 : residue[2]; r < (merged_ ? out_step_[2] : residue[2] + 1);
         ++r)
      for (const Tap& t : axis(2, r))
        pack.reads.push_back(
            {(b * (merged_ ? out_step_[2] : 1) + (merged_ ? r : 0)) * out_channels_,
             t.offset + in_step_[2] * b, t.kernel});
  std::int64_t first = 0, end = 0;
  for (std::size_t i = 0; i < pack.reads.size(); ++i) {
    const std::int64_t offset = pack.reads[i].offset;
    first = i == 0 ? offset : std::min(first, offset);
    end = i == 0 ? offset + 1 : std::max(end, offset + 1);
  }
  pack.first = first;
  c.residue = residue;
  for (const Tap& t : pack.z) c.z.push_back(static_cast<int>(t.offset));
  for (const Tap& t : pack.y) c.y.push_back(static_cast<int>(t.offset));
  c.x = static_cast<int>(first);
  const std::int64_t each = numbers_a_word(products_);
  c.words = static_cast<int>(((end - first) * in_channels_ + each - 1) / each);
  if (products_ == Products::tiles) c.together = tile_words(c.words);
  if (products_ == Products::tiles && !c.together) return false;
  for (const Tap& t : pack.z)
    low_[0] = std::min(low_[0], t.offset), high_[0] = std::max(high_[0], t.offset);
  for (const Tap& t : pack.y)
    low_[1] = std::min(low_[1], t.offset), high_[1] = std::max(high_[1], t.offset);
  low_[2] = std::min(low_[2], first);
  high_[2] = std::max(high_[2], end - 1);

  const auto rows = static_cast<std::int64_t>(pack.z.size() * pack.y.size());
  c.weight_words = rows * c.words * vectors_ * 16;
  c.weights = Buffer<std::uint32_t>(c.weight_words);
  std::memset(c.weights.data(), 0, static_cast<std::size_t>(c.weight_words) * 4);
  // Channels that share a word of pairs are packed by one thread.
  const std::int64_t together = each == 1 ? 1 : in_channels_ % 2 == 0 ? 2 : in_channels_;
  team_for(in_channels_ / together, [&](std::int64_t begin, std::int64_t finish) {
    pack.channels(together * begin, together * finish);
  });
  make_list(c);
  classes_.push_back(std::move(c));
  return true;
}

// The words that are not zero in all lanes, where they are few enough.
void Gather::make_list(Class& c) const {
  if (c.weight_words == 0 || merged_) return;
  const std::int64_t rows = static_cast<std::int64_t>(c.z.size() * c.y.size());
  std::vector<Class::Listed> list;
  std::vector<std::int64_t> begins;
  std::vector<const std::uint32_t*> from;
  const std::uint32_t signs = numbers_a_word(products_) == 2 ? 0x80008000 : 0x80000000;
  for (int v = 0; v < vectors_; ++v) {
    const int group = v / tile_.vectors * tile_.vectors;
    const int width = std::min(tile_.vectors, vectors_ - group);
    begins.push_back(static_cast<std::int64_t>(list.size()));
    for (std::int64_t row = 0; row < rows; ++row)
      for (int word = 0; word < c.words; ++word) {
        const std::int64_t at =
            group * rows * c.words + (row * c.words + word) * width + (v - group);
        const std::uint32_t* w = c.weights.data() + at * 16;
        if (std::all_of(w, w + 16, [&](std::uint32_t bits) { return (bits & ~signs) == 0; }))
          continue;
        list.push_back({static_cast<int>(row), word});
        from.push_back(w);
      }
  }
  begins.push_back(static_cast<std::int64_t>(list.size()));
  const auto dense = static_cast<double>(rows * c.words * vectors_);
  if (static_cast<double>(list.size()) > list_pays(products_, c.together > 0) * dense) return;
  Buffer<std::uint32_t> packed(static_cast<std::int64_t>(list.size()) * 16);
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(packed.data() + i * 16, from[i], 16 * sizeof(std::uint32_t));
  c.weights = std::move(packed);
  c.weight_words = static_cast<std::int64_t>(list.size()) * 16;
  c.together = 0;
  c.list = std::move(list);
  c.list_begins = std::move(begins);
}

// ---- running ------------------------------------------------------------------------------------

template <class T, class C>
struct Gather::Job {
  PaddedRows<T, C> in;  // the sample, with its borders
  Size3 out_size;
  const float* bias;
  const T* residual;
  void* out;
  bool wide;                                 // out is float32
  std::vector<std::ptrdiff_t> offsets = {};  // of a class' list, from the position's first byte
};

namespace {

// Where a tile's sums go: values `step` apart, one a position.
template <class T, class O>
struct Store {
  const float* bias;  // 16 a vector
  const T* residual;  // as out
  O* out;
  std::int64_t at, step;  // values from `out` on
};

#if defined(__x86_64__)
// The bits of 16 or fewer numbers, to and from float32.
SLUICE_AVX512 inline __m512 load_some(__mmask16 mask, const float* p) {
  return _mm512_maskz_loadu_ps(mask, p);
}
SLUICE_AVX512 inline __m512 load_some(__mmask16 mask, const Bf16Bits* p) {
  const __m256i bits = _mm256_maskz_loadu_epi16(mask, p);
  return _mm512_castsi512_ps(
      _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits), 16));
}
template <Products products>
SLUICE_AVX512 inline void store_some(__mmask16 mask, float* p, __m512 v) {
  _mm512_mask_storeu_ps(p, mask, v);
}
template <Products products>
SLUICE_AVX512 inline void store_some(__mmask16 mask, Bf16Bits* p, __m512 v) {
  __m256i bits;
  if constexpr (products == Products::pairs)
    asm("vcvtneps2bf16 %1, %0" : "=v"(bits) : "v"(v));
  else
    store(reinterpret_cast<Bf16Bits*>(&bits), reinterpret_cast<F16>(v));
  _mm256_mask_storeu_epi16(p, mask, bits);
}

// A tile's sums to memory, plus bias and residual. `last` lanes are real at the last position,
// `lanes` at all others; `acc` has `width` vectors a position, this is the first of them.
template <Products products, class T, class O>
SLUICE_AVX512 void store_wide(const float* acc, int width, std::int64_t positions, int lanes,
                              int last, Store<T, O> s) {
  const __m512 bias = s.bias ? _mm512_loadu_ps(s.bias) : _mm512_setzero_ps();
  auto mask = static_cast<__mmask16>((1u << lanes) - 1);
  for (std::int64_t i = 0; i < positions; ++i, s.at += s.step) {
    if (i == positions - 1) mask = static_cast<__mmask16>((1u << last) - 1);
    __m512 v = _mm512_add_ps(_mm512_load_ps(acc + i * width * 16), bias);
    if (s.residual) v = _mm512_add_ps(v, load_some(mask, s.residual + s.at));
    store_some<products>(mask, s.out + s.at, v);
  }
}

// Two vectors at a time to 32 bfloat16 numbers side by side, which fill a line of the cache: both
// of a position, or of two positions that touch. All lanes are real; `second`: from a vector's bias
// to its partner's.
SLUICE_AVX512 void store_pairs(const float* acc, std::int64_t pairs, int second,
                               Store<Bf16Bits, Bf16Bits> s) {
  __m512 bias[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  if (s.bias) bias[0] = _mm512_loadu_ps(s.bias), bias[1] = _mm512_loadu_ps(s.bias + second);
  for (std::int64_t i = 0; i < pairs; ++i, s.at += s.step, acc += 32) {
    __m512 low = _mm512_add_ps(_mm512_load_ps(acc), bias[0]);
    __m512 high = _mm512_add_ps(_mm512_load_ps(acc + 16), bias[1]);
    if (s.residual) {
      low = _mm512_add_ps(low, load_some(0xffff, s.residual + s.at));
      high = _mm512_add_ps(high, load_some(0xffff, s.residual + s.at + 16));
    }
    __m512i bits;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(bits) : "v"(low), "v"(high));
    _mm512_storeu_si512(s.out + s.at, bits);
  }
}
#endif

template <class T, class O>
void store_narrow(const float* acc, int width, std::int64_t positions, int lanes, int last,
                  Store<T, O> s) {
  for (std::int64_t i = 0; i < positions; ++i, s.at += s.step)
    each(i == positions - 1 ? last : lanes, [&]<class V>(V, std::int64_t l) SLUICE_INLINE {
      V v = load<V>(acc + i * width * 16 + l);
      if (s.bias) v += load<V>(s.bias + l);
      if (s.residual) v += load<V>(s.residual + s.at + l);
      store(s.out + s.at + l, v);
    });
}

}  // namespace

// Some rows of outputs of one class, for one group of vectors.
template <class T, class C>
struct Gather::Block {
  const Job<T, C>& job;
  const Class& c;
  Tiles& by_tiles;
  int v, width;                   // vectors
  int taps;                       // rows of taps in one go
  std::int64_t across, tiles, m;  // positions of a row; tiles of m of them, the last may overlap

  // The sums of tiles [first, end) of each row, one row after the other; then their stores.
  void sum(const Gather& g, const Position* rows, std::int64_t n, std::int64_t first,
           std::int64_t end, float* acc, std::ptrdiff_t acc_step = 0) const;
  // Where the sums of a row's tile belong, if nothing more is to be done with them.
  float* straight(const Gather& g, const Position& row, std::int64_t tile) const;
  // The first output of a row's tile.
  std::int64_t place(const Gather& g, const Position& row, std::int64_t tile) const;
  void sum_listed(const Gather& g, const Position* rows, std::int64_t n, std::int64_t first,
                  std::int64_t end, float* acc) const;
  void store(const Gather& g, const Position& row, std::int64_t tile, const float* acc) const;
  template <class O>
  void store_to(const Gather& g, O* out, const float* acc, std::int64_t at,
                std::int64_t real) const;
  std::int64_t start(std::int64_t tile) const { return std::min(tile * m, across - m); }
};

std::int64_t Gather::step() const { return out_step_[2] * (merged_ ? block_ : 1); }
std::int64_t Gather::count(const Class& c, const Size3& out_size) const {
  return (out_size[2] - c.residue[2] + step() - 1) / step();
}

template <class T, class C>
void Gather::Block<T, C>::sum(const Gather& g, const Position* rows, std::int64_t n,
                              std::int64_t first, std::int64_t end, float* acc,
                              std::ptrdiff_t acc_step) const {
  if (c.listed()) return sum_listed(g, rows, n, first, end, acc);
  const auto all = static_cast<int>(c.z.size() * c.y.size()), ys = static_cast<int>(c.y.size());
  std::ptrdiff_t offsets[max_rows];
  MicroTask t{};
  t.acc_step = acc_step;
  t.rows = offsets;
  t.words = c.words;
  t.mstep = g.in_step_[2] * g.block_ * g.in_channels_ * static_cast<std::ptrdiff_t>(sizeof(C));
  t.pstep = 4;
  const Micro micro = c.together ? nullptr : find_micro(g.products_, 1, static_cast<int>(m), width);
  const std::uint32_t* const weights =
      c.weights.data() + static_cast<std::int64_t>(v) * all * c.words * 16;
  for (int tap = 0; tap == 0 || tap < all; tap += std::max(1, taps)) {  // no tap at all: zeros
    t.n_rows = std::min(taps, all - tap);
    t.add = tap > 0;
    t.weights = reinterpret_cast<const char*>(weights + std::int64_t{tap} * width * c.words * 16);
    for (std::int64_t r = 0; r < n; ++r) {
      for (int k = 0; k < t.n_rows; ++k)
        offsets[k] = job.in.offset(g.in_step_[0] * rows[r].z + c.z[(tap + k) / ys],
                                   g.in_step_[1] * rows[r].y + c.y[(tap + k) % ys], c.x);
      for (std::int64_t tile = first; tile < end; ++tile) {
        t.in = job.in.bytes() + start(tile) * t.mstep;
        t.acc = acc + (r * (end - first) + tile - first) * m * width * 16;
        if (micro)
          micro(t);
        else
          by_tiles.run(t, static_cast<int>(m), width, c.together);
      }
    }
  }
}

// A word of the list is a row of one word.
template <class T, class C>
void Gather::Block<T, C>::sum_listed(const Gather& g, const Position* rows, std::int64_t n,
                                     std::int64_t first, std::int64_t end, float* acc) const {
  const std::int64_t begin = c.list_begins[v], finish = c.list_begins[v + 1];
  MicroTask t{};
  t.words = 1;
  t.mstep = g.in_step_[2] * g.in_channels_ * static_cast<std::ptrdiff_t>(sizeof(C));
  t.pstep = 4;
  const Micro micro = find_listed_micro(g.products_, static_cast<int>(m));
  for (std::int64_t at = begin; at == begin || at < finish; at += taps) {
    t.n_rows = static_cast<int>(std::min<std::int64_t>(taps, finish - at));
    t.rows = job.offsets.data() + at;
    t.add = at > begin;
    t.weights = reinterpret_cast<const char*>(c.weights.data() + at * 16);
    for (std::int64_t r = 0; r < n; ++r) {
      const std::ptrdiff_t position =
          job.in.offset(g.in_step_[0] * rows[r].z, g.in_step_[1] * rows[r].y, 0);
      for (std::int64_t tile = first; tile < end; ++tile) {
        t.in = job.in.bytes() + position + start(tile) * t.mstep;
        t.acc = acc + (r * (end - first) + tile - first) * m * 16;
        micro(t);
      }
    }
  }
}

template <class T, class C>
template <class O>
void Gather::Block<T, C>::store_to(const Gather& g, O* out, const float* acc, std::int64_t at,
                                   std::int64_t real) const {
  const std::int64_t step = g.step() * g.out_channels_;
#if defined(__x86_64__)
  if constexpr (std::is_same_v<O, Bf16Bits>) {
    const bool touch = width == 1 && step == 16 && m % 2 == 0;
    if (g.products_ >= Products::pairs && (width == 2 || touch) &&
        std::min<std::int64_t>(g.lanes_, real) >= (v + width) * 16)
      return store_pairs(acc, m * width / 2, touch ? 0 : 16,
                         {job.bias ? job.bias + v * 16 : nullptr, job.residual, out, at + v * 16,
                          touch ? 32 : step});
  }
  const auto store_tile = g.products_ == Products::avx2     ? store_narrow<T, O>
                          : g.products_ == Products::avx512 ? store_wide<Products::avx512, T, O>
                                                            : store_wide<Products::pairs, T, O>;
#else
  constexpr auto store_tile = store_narrow<T, O>;
#endif
  for (int b = 0; b < width; ++b) {
    const int from = (v + b) * 16;
    store_tile(acc + b * 16, width, m, std::min(16, g.lanes_ - from),
               static_cast<int>(std::min<std::int64_t>(16, real - from)),
               {job.bias ? job.bias + from : nullptr, job.residual, out, at + from, step});
  }
}

template <class T, class C>
std::int64_t Gather::Block<T, C>::place(const Gather& g, const Position& row,
                                        std::int64_t tile) const {
  const std::int64_t oz = g.out_step_[0] * row.z + c.residue[0];
  const std::int64_t oy = g.out_step_[1] * row.y + c.residue[1];
  const std::int64_t row_out = (oz * job.out_size[1] + oy) * job.out_size[2];
  return (row_out + start(tile) * g.step() + c.residue[2]) * g.out_channels_;
}

template <class T, class C>
float* Gather::Block<T, C>::straight(const Gather& g, const Position& row,
                                     std::int64_t tile) const {
  if (!job.wide || job.bias || job.residual || g.merged_ || c.together || c.listed() ||
      g.out_channels_ % 16 != 0)
    return nullptr;
  return static_cast<float*>(job.out) + place(g, row, tile) + v * 16;
}

template <class T, class C>
void Gather::Block<T, C>::store(const Gather& g, const Position& row, std::int64_t tile,
                                const float* acc) const {
  const std::int64_t step = g.step(), first = start(tile) * step + c.residue[2];
  const std::int64_t left = job.out_size[2] - first - (m - 1) * step;
  const std::int64_t real =
      g.merged_ ? std::min<std::int64_t>(g.lanes_, left * g.out_channels_) : g.lanes_;
  const std::int64_t at = place(g, row, tile);
  if (job.wide)
    store_to(g, static_cast<float*>(job.out), acc, at, real);
  else
    store_to(g, static_cast<T*>(job.out), acc, at, real);
}

// Of each listed word, from the bytes of the position that it is summed for.
template <class T, class C>
std::vector<std::ptrdiff_t> Gather::offsets_of(const Job<T, C>& job, const Class& c) const {
  std::vector<std::ptrdiff_t> all;
  const auto ys = static_cast<int>(c.y.size());
  for (const auto& [row, word] : c.list)
    all.push_back(job.in.offset(c.z[row / ys], c.y[row % ys], c.x) - job.in.offset(0, 0, 0) +
                  4 * word);
  return all;
}

// The outputs of one class, of positions [begin, end) along z.
template <class T, class C>
void Gather::run_class(const Job<T, C>& job, const Class& c, std::int64_t begin,
                       std::int64_t end) const {
  const std::int64_t across = count(c, job.out_size);
  std::vector<Position> rows;
  for (std::int64_t z = begin; z < end && out_step_[0] * z + c.residue[0] < job.out_size[0]; ++z)
    for (std::int64_t y = 0; out_step_[1] * y + c.residue[1] < job.out_size[1]; ++y)
      rows.push_back({z, y});
  if (across <= 0 || rows.empty()) return;
  constexpr int all_listed = 1 << 30, some_listed = 512;  // words of a list
  const int taps = c.listed() ? all_listed : static_cast<int>(c.z.size() * c.y.size());
  const int vectors = c.listed() ? 1 : tile_.vectors;
  const auto n = static_cast<std::int64_t>(rows.size());
  const auto block = [&](Tiles& by_tiles, int v, int taps_at_once) {
    const int width = std::min(vectors, vectors_ - v);
    const std::int64_t most = (c.together ? most_tile_sums : tile_.sums) / width;
    const std::int64_t tiles = (across + most - 1) / most, m = (across + tiles - 1) / tiles;
    return Block<T, C>{job, c, by_tiles, v, width, taps_at_once, across, tiles, m};
  };
  if (c.weight_words * 4 <= heavy_weights) {
    team_for(n, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) float acc[most_tile_sums * 16];
      Tiles by_tiles;
      for (std::int64_t r = begin; r < end; ++r)
        for (int v = 0; v < vectors_; v += vectors) {
          const auto b = block(by_tiles, v, taps);
          const Position& row = rows[static_cast<std::size_t>(r)];
          for (std::int64_t tile = 0; tile < b.tiles; ++tile)
            if (float* to = b.straight(*this, row, tile)) {
              b.sum(*this, &row, 1, tile, tile + 1, to, step() * out_channels_);
            } else {
              b.sum(*this, &row, 1, tile, tile + 1, acc);
              b.store(*this, row, tile, acc);
            }
        }
    });
    return;
  }
  // Weights that the cache cannot hold are read once for many rows of outputs.
  team_for((vectors_ + vectors - 1) / vectors, [&](std::int64_t from, std::int64_t to) {
    Buffer<float> sums;
    Tiles by_tiles;
    for (std::int64_t group = from; group < to; ++group) {
      const auto b =
          block(by_tiles, static_cast<int>(group) * vectors, c.listed() ? some_listed : 1);
      const std::int64_t tile = b.m * b.width * 16, row = b.tiles * tile;
      const std::int64_t together = 1 + sums_of_block / row;
      if (!sums.data()) sums = Buffer<float>(together * row);
      for (std::int64_t r = 0; r < n; r += together) {
        const Position* some = rows.data() + r;
        const std::int64_t count = std::min(together, n - r);
        b.sum(*this, some, count, 0, b.tiles, sums.data());
        for (std::int64_t i = 0; i < count * b.tiles; ++i)
          b.store(*this, some[i / b.tiles], i % b.tiles, sums.data() + i * tile);
      }
    }
  });
}

// How many of the positions along z are computed from one filling: all where weights are read once
// for as many outputs as there are, or where a list counts bytes from plane to plane.
std::int64_t Gather::planes_at_once(const Size3& need, std::int64_t planes,
                                    std::int64_t plane_bytes) const {
  const std::int64_t span = high_[0] - low_[0] + 1, most = cached_input / plane_bytes;
  if (need[0] <= most || std::any_of(classes_.begin(), classes_.end(), [](const Class& c) {
        return c.listed() || c.weight_words * 4 > heavy_weights;
      }))
    return planes;
  return std::max<std::int64_t>(1, (most - span) / in_step_[0] + 1);
}

template <class T, class C>
void Gather::run_all(const at::Tensor& in, const float* bias, const at::Tensor& residual,
                     at::Tensor& out) const {
  Size3 size = spatial(in), out_size = spatial(out);
  std::int64_t samples = in.size(0);
  if (of_positions(spec_)) {  // enough rows for all threads
    constexpr std::int64_t least = 64;
    size = out_size = in_rows(samples * size[0] * size[1] * size[2], least);
    samples = 1;
  }
  Size3 need;  // positions that taps reach, from low_ on
  for (int d = 0; d < 3; ++d) {
    const std::int64_t step = out_step_[d] * (d == 2 ? block_ : 1);
    const std::int64_t last = (out_size[d] + step - 1) / step - 1;
    need[d] = in_step_[d] * (d == 2 ? block_ : 1) * last + high_[d] - low_[d] + 1;
  }
  const bool wide = out.scalar_type() == at::kFloat;
  const std::int64_t in_volume = in.numel() / samples, out_volume = out.numel() / samples;
  const std::int64_t planes = (out_size[0] + out_step_[0] - 1) / out_step_[0];
  const std::int64_t once = planes_at_once(
      need, planes, need[1] * need[2] * in_channels_ * static_cast<std::int64_t>(sizeof(C)));
  const std::int64_t span = high_[0] - low_[0] + 1;
  Job<T, C> job{
      {size, in_channels_, low_, need, std::min(need[0], in_step_[0] * (once - 1) + span)},
      out_size,
      bias,
      nullptr,
      nullptr,
      wide};
  for (std::int64_t n = 0; n < samples; ++n) {
    const T* const sample = static_cast<const T*>(in.const_data_ptr()) + n * in_volume;
    if (residual.defined())
      job.residual = static_cast<const T*>(residual.const_data_ptr()) + n * out_volume;
    job.out = static_cast<char*>(out.data_ptr()) + n * out_volume * out.element_size();
    std::int64_t made = 0;
    for (std::int64_t z = 0; z < planes; z += once) {
      const std::int64_t end = std::min(planes, z + once);
      const std::int64_t reach = std::min(need[0], in_step_[0] * (end - 1) + span);
      job.in.fill(sample, std::max(made, in_step_[0] * z), reach);
      made = reach;
      for (const Class& c : classes_) {
        job.offsets = offsets_of(job, c);
        run_class(job, c, z, end);
      }
    }
  }
}

void Gather::run(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& residual,
                 at::Tensor& out) const {
  if (planes_) return planes_->run(in, bias, residual, out);
  if (depthwise_) return depthwise_->run(in, bias, residual, out);
  if (grouped_) return grouped_->run(in, bias, residual, out);
  if (winograd_) return winograd_->run(in, bias, residual, out);
  std::vector<float> lane_bias(vectors_ * 16, 0.f);
  if (bias.defined())
    for (int i = 0; i < lanes_; ++i) lane_bias[i] = bias.const_data_ptr<float>()[i % out_channels_];
  const float* b = bias.defined() ? lane_bias.data() : nullptr;
  if (type_ == at::kFloat)
    run_all<float, float>(in, b, residual, out);
  else if (numbers_a_word(products_) == 2)
    run_all<Bf16Bits, Bf16Bits>(in, b, residual, out);
  else
    run_all<Bf16Bits, float>(in, b, residual, out);
}

}  // namespace sluice
