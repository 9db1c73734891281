#include "kernels/net/direct_conv_grad_tiles.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/base/transpose.h"
#include "kernels/net/direct_conv_shape.h"
#include "kernels/net/direct_conv_tiles.h"

namespace sluice {
namespace {

constexpr std::int64_t block = 32;                 // positions of a product
constexpr std::int64_t chunk_bytes = 1024 * 1024;  // of U and V, which all sums read

// Where a tap finds its partners: the positions of U from `phase` on, `shift` after V's.
struct Offset {
  std::int64_t phase, shift;
};
Offset offset_of(std::int64_t k, std::int64_t pad, std::int64_t stride) {
  const std::int64_t phase = ((k - pad) % stride + stride) % stride;
  return {phase, (k - pad - phase) / stride};
}

// 32 positions of 16 or fewer channels, [position][A], as a tile: a row for each channel.
void to_tile(const Bf16Bits* from, std::int64_t A, std::int64_t channels, Bf16Bits* to) {
  simd([=]() SLUICE_INLINE {
    const auto at = [=](std::int64_t position) SLUICE_INLINE {
      H16 x;  // past the channels: what comes next
      std::memcpy(&x, from + position * A, 32);
      return __builtin_convertvector(x, U16);
    };
    U16 rows[16];
    for (std::int64_t i = 0; i < 16; ++i) rows[i] = at(2 * i) | at(2 * i + 1) << 16;
    transpose(rows);
    for (std::int64_t a = 0; a < channels; ++a) std::memcpy(to + a * block, &rows[a], 64);
  });
}

// Words of positions (2i, 2i + 1) and of (2i + 1, 2i + 2), 16 channels of [position][B] each.
void to_words(const Bf16Bits* from, std::int64_t B, std::int64_t words, std::uint32_t* even,
              std::uint32_t* odd) {
  simd([=]() SLUICE_INLINE {
    const auto at = [&](std::int64_t position) SLUICE_INLINE {
      H16 x;
      std::memcpy(&x, from + position * B, 32);
      return __builtin_convertvector(x, U16);
    };
    U16 first = at(0);
    for (std::int64_t i = 0; i < words; ++i) {
      const U16 second = at(2 * i + 1), third = at(2 * i + 2);
      const U16 a = first | second << 16, b = second | third << 16;
      std::memcpy(even + 16 * i, &a, 64);
      std::memcpy(odd + 16 * i, &b, 64);
      first = third;
    }
  });
}

class TileWeightGrad {
 public:
  TileWeightGrad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v);
  void add(const Bf16Bits* u, const Bf16Bits* v, std::int64_t samples);
  at::Tensor result(at::IntArrayRef shape) const;

 private:
  struct Tap {
    std::int64_t phase, z, flat;  // which of U's; shifts
  };
  // A piece of the result that the tiles sum at once: one or two blocks of channels of U, with so
  // many (tap, vector) of V that four tiles hold the sums.
  struct Item {
    std::int64_t phase, z, a;
    int n_a, n_b = 0;
    std::array<std::int64_t, 4> at{};  // words in a plane of V, for the first position of U
  };
  // Planes [z, z + planes) of rows [y, y + rows) of each phase of U, and what of V they meet.
  struct Chunk {
    std::int64_t sample, y, z, planes;
    std::int64_t v_begin, v_end;  // planes of V that are not there yet
  };

  void plan_chunks();
  void plan_items();
  std::vector<Chunk> chunks(std::int64_t samples) const;
  std::int64_t blocks() const { return (rows_ * pitch_ + block - 1) / block; }
  std::int64_t v_positions() const {
    return origin_ + std::max(blocks() * block - low_, reach()) + 2;
  }
  std::int64_t reach() const { return (rows_ - low_y_) * pitch_; }
  std::int64_t v_words() const { return (v_positions() + 1) / 2; }
  std::int64_t plane_of_u() const { return n_phases_ * blocks() * a_blocks_ * 16 * block; }
  std::int64_t plane_of_v() const { return vectors_ * 2 * v_words() * 16; }
  void make_u(const Bf16Bits* u, const Chunk& c, std::int64_t plane, std::int64_t phase);
  void make_v(const Bf16Bits* v, const Chunk& c, std::int64_t z);
  void sum(Tiles& tiles, std::size_t item, const Chunk& c);

  const Size3 stride_, kernel_, pad_, u_size_, v_size_;
  const std::int64_t A_, B_, a_blocks_, vectors_;
  Size3 grid_;          // of a phase of U
  std::int64_t pitch_;  // from one row of a plane to the next
  std::int64_t low_y_, high_y_, low_z_, high_z_, low_, high_;  // shifts
  std::int64_t origin_;  // where V's first row of a chunk begins, in its plane
  std::int64_t rows_, planes_, slots_;
  std::int64_t n_phases_ = 0;
  std::vector<Size3> phases_;
  std::vector<Tap> taps_;
  std::vector<Item> items_;
  std::vector<std::int64_t> places_;  // by tap, vector and block of channels: in sums_
  std::vector<char> begun_;           // by item: its sums are there
  Buffer<float> sums_;                // four tiles an item
  Buffer<Bf16Bits> u_;                // [plane][phase][block][block of channels][16][32]
  Buffer<std::uint32_t> v_;           // [slot][vector][even, odd][word][16]
};

TileWeightGrad::TileWeightGrad(const ConvSpec& spec, const at::Tensor& u, const at::Tensor& v)
    : stride_(three(spec.stride, 1)),
      kernel_(three(spec.kernel, 1)),
      pad_(three(spec.padding, 0)),
      u_size_(long_rows(spec, spatial(u))),
      v_size_(long_rows(spec, spatial(v))),
      A_(u.size(1)),
      B_(v.size(1)),
      a_blocks_((A_ + 15) / 16),
      vectors_((B_ + 15) / 16) {
  for (int d = 0; d < 3; ++d) grid_[d] = (u_size_[d] + stride_[d] - 1) / stride_[d];
  const auto shift = [&](int d, std::int64_t k) { return offset_of(k, pad_[d], stride_[d]).shift; };
  const auto low = [&](int d) { return std::min<std::int64_t>(0, shift(d, 0)); };
  const auto high = [&](int d) { return std::max<std::int64_t>(0, shift(d, kernel_[d] - 1)); };
  // A shift past either end of a row comes to zeros.
  pitch_ = std::max(v_size_[2] + high(2), grid_[2] - low(2));
  low_z_ = low(0), high_z_ = high(0), low_y_ = low(1), high_y_ = high(1);
  low_ = low_y_ * pitch_ + low(2), high_ = high_y_ * pitch_ + high(2);
  origin_ = (high_ + 1) / 2 * 2;
  for (std::int64_t z = 0; z < kernel_[0]; ++z)
    for (std::int64_t y = 0; y < kernel_[1]; ++y)
      for (std::int64_t x = 0; x < kernel_[2]; ++x) {
        const Offset oz = offset_of(z, pad_[0], stride_[0]), oy = offset_of(y, pad_[1], stride_[1]),
                     ox = offset_of(x, pad_[2], stride_[2]);
        const Size3 phase{oz.phase, oy.phase, ox.phase};
        const auto found = std::find(phases_.begin(), phases_.end(), phase);
        taps_.push_back({found - phases_.begin(), oz.shift, oy.shift * pitch_ + ox.shift});
        if (found == phases_.end()) phases_.push_back(phase);
      }
  n_phases_ = static_cast<std::int64_t>(phases_.size());
  plan_chunks();
  u_ = Buffer<Bf16Bits>(planes_ * plane_of_u());
  v_ = Buffer<std::uint32_t>(slots_ * plane_of_v());
  plan_items();
}

// Whole planes where they fit; as few rows as leave the zeros and the rows that chunks share few.
void TileWeightGrad::plan_chunks() {
  const std::int64_t span = high_z_ - low_z_;
  const auto bytes = [&] { return 2 * plane_of_u() + 4 * (1 + span) * plane_of_v(); };
  constexpr std::int64_t least = 8;
  for (rows_ = grid_[1]; rows_ > least && bytes() > chunk_bytes;) rows_ = (rows_ + 1) / 2;
  const std::int64_t more = 2 * plane_of_u() + 4 * plane_of_v();
  planes_ = std::clamp<std::int64_t>(1 + (chunk_bytes - bytes()) / more, 1, grid_[0]);
  slots_ = planes_ + span;
}

// Taps that read the same planes of V stand together.
void TileWeightGrad::plan_items() {
  const std::int64_t of_taps = static_cast<std::int64_t>(taps_.size());
  places_.resize(static_cast<std::size_t>(of_taps * vectors_ * a_blocks_));
  for (std::int64_t phase = 0; phase < n_phases_; ++phase)
    for (std::int64_t z = low_z_; z <= high_z_; ++z)
      for (std::int64_t a = 0; a < a_blocks_; a += 2) {
        const int n_a = static_cast<int>(std::min<std::int64_t>(2, a_blocks_ - a)), most = 4 / n_a;
        Item item{phase, z, a, n_a};
        const auto done = [&] {
          if (item.n_b > 0) items_.push_back(item);
          item.n_b = 0;
        };
        for (std::int64_t vector = 0; vector < vectors_; ++vector)
          for (std::int64_t t = 0; t < of_taps; ++t) {
            const Tap& tap = taps_[static_cast<std::size_t>(t)];
            if (tap.phase != phase || tap.z != z) continue;
            const std::int64_t first = origin_ - tap.flat;
            item.at[item.n_b] = ((vector * 2 + first % 2) * v_words() + first / 2) * 16;
            for (int n = 0; n < n_a; ++n)
              places_[static_cast<std::size_t>((t * vectors_ + vector) * a_blocks_ + a + n)] =
                  static_cast<std::int64_t>(items_.size()) * 4 + 2 * n + item.n_b;
            if (++item.n_b == most) done();
          }
        done();
      }
  sums_ = Buffer<float>(static_cast<std::int64_t>(items_.size()) * 4 * 256);
  begun_.assign(items_.size(), 0);
}

// Down a column of planes, then the next column: planes of V that two chunks share are made once.
std::vector<TileWeightGrad::Chunk> TileWeightGrad::chunks(std::int64_t samples) const {
  std::vector<Chunk> all;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t y = 0; y < grid_[1]; y += rows_) {
      std::int64_t made = 0;
      for (std::int64_t z = 0; z < grid_[0]; z += planes_) {
        const std::int64_t planes = std::min(planes_, grid_[0] - z);
        const std::int64_t end = std::min(v_size_[0], z + planes - low_z_);
        made = std::max(made, z - high_z_);
        all.push_back({n, y, z, planes, made, end});
        made = std::max(made, end);
      }
    }
  return all;
}

void TileWeightGrad::make_u(const Bf16Bits* u, const Chunk& c, std::int64_t plane,
                            std::int64_t phase) {
  const Size3& f = phases_[static_cast<std::size_t>(phase)];
  const std::int64_t z = stride_[0] * (c.z + plane) + f[0];
  if (z >= u_size_[0]) return;  // nothing is summed of it
  Buffer<Bf16Bits> flat(blocks() * block * A_ + 16);
  Bf16Bits* to = flat.data();
  for (std::int64_t r = 0; r < rows_; ++r, to += pitch_ * A_) {
    const std::int64_t y = stride_[1] * (c.y + r) + f[1];
    std::int64_t n = 0;
    if (c.y + r < grid_[1] && y < u_size_[1]) {
      const Bf16Bits* const from = u + ((z * u_size_[1] + y) * u_size_[2] + f[2]) * A_;
      n = (u_size_[2] - f[2] + stride_[2] - 1) / stride_[2];
      if (stride_[2] == 1)
        std::memcpy(to, from, static_cast<std::size_t>(n * A_) * 2);
      else
        for (std::int64_t x = 0; x < n; ++x)
          std::memcpy(to + x * A_, from + x * stride_[2] * A_, static_cast<std::size_t>(A_) * 2);
    }
    std::memset(to + n * A_, 0, static_cast<std::size_t>((pitch_ - n) * A_) * 2);
  }
  std::memset(to, 0, static_cast<std::size_t>(flat.data() + blocks() * block * A_ - to) * 2);
  Bf16Bits* tile = u_.data() + plane * plane_of_u() + phase * (plane_of_u() / n_phases_);
  for (std::int64_t b = 0; b < blocks(); ++b)
    for (std::int64_t a = 0; a < a_blocks_; ++a, tile += 16 * block)
      to_tile(flat.data() + b * block * A_ + 16 * a, A_, std::min<std::int64_t>(16, A_ - 16 * a),
              tile);
}

// Lanes beyond the channels hold what comes next; nobody reads their sums.
void TileWeightGrad::make_v(const Bf16Bits* v, const Chunk& c, std::int64_t z) {
  const std::int64_t positions = 2 * v_words() + 1;
  Buffer<Bf16Bits> flat(positions * B_ + 16);
  std::memset(flat.data(), 0, static_cast<std::size_t>(positions * B_ + 16) * 2);
  const std::int64_t begin = std::max<std::int64_t>(0, c.y - high_y_),
                     end = std::min(v_size_[1], c.y + rows_ - low_y_);
  for (std::int64_t y = begin; y < end; ++y)
    std::memcpy(flat.data() + (origin_ + (y - c.y) * pitch_) * B_,
                v + (z * v_size_[1] + y) * v_size_[2] * B_,
                static_cast<std::size_t>(v_size_[2] * B_) * 2);
  std::uint32_t* to = v_.data() + z % slots_ * plane_of_v();
  for (std::int64_t vector = 0; vector < vectors_; ++vector, to += 2 * v_words() * 16)
    to_words(flat.data() + 16 * vector, B_, v_words(), to, to + v_words() * 16);
}

void TileWeightGrad::sum(Tiles& tiles, std::size_t number, const Chunk& c) {
  const Item& item = items_[number];
  TileSums t;
  t.rows = static_cast<int>(std::min<std::int64_t>(16 * item.n_a, A_ - 16 * item.a));
  t.n_b = item.n_b;
  const std::int64_t rows = std::min(rows_, grid_[1] - c.y);
  t.blocks = static_cast<int>((rows * pitch_ + block - 1) / block);
  t.a_step = 2 * a_blocks_ * 16 * block;
  t.sums = sums_.data() + static_cast<std::int64_t>(number) * 4 * 256;
  for (std::int64_t plane = 0; plane < c.planes; ++plane) {
    const std::int64_t z = c.z + plane - item.z;
    const Size3& f = phases_[static_cast<std::size_t>(item.phase)];
    if (z < 0 || z >= v_size_[0] || stride_[0] * (c.z + plane) + f[0] >= u_size_[0]) continue;
    t.a = reinterpret_cast<const char*>(u_.data() + plane * plane_of_u() +
                                        item.phase * (plane_of_u() / n_phases_) +
                                        item.a * 16 * block);
    for (int b = 0; b < item.n_b; ++b)
      t.b[b] = reinterpret_cast<const char*>(v_.data() + z % slots_ * plane_of_v() + item.at[b]);
    t.add = begun_[number];
    tiles.run(t);
    begun_[number] = 1;
  }
}

void TileWeightGrad::add(const Bf16Bits* u, const Bf16Bits* v, std::int64_t samples) {
  for (const Chunk& c : chunks(samples)) {
    const Bf16Bits* const of_u = u + c.sample * u_size_[0] * u_size_[1] * u_size_[2] * A_;
    const Bf16Bits* const of_v = v + c.sample * v_size_[0] * v_size_[1] * v_size_[2] * B_;
    const std::int64_t n_u = c.planes * n_phases_;
    team_for(n_u + std::max<std::int64_t>(0, c.v_end - c.v_begin),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i)
                 if (i < n_u)
                   make_u(of_u, c, i / n_phases_, i % n_phases_);
                 else
                   make_v(of_v, c, c.v_begin + i - n_u);
             });
    team_for(static_cast<std::int64_t>(items_.size()), [&](std::int64_t begin, std::int64_t end) {
      Tiles tiles;
      for (std::int64_t i = begin; i < end; ++i) sum(tiles, static_cast<std::size_t>(i), c);
    });
  }
}

at::Tensor TileWeightGrad::result(at::IntArrayRef shape) const {
  alignas(64) static constexpr float zeros[16] = {};  // of taps that never meet the image
  const auto of_taps = static_cast<std::int64_t>(taps_.size());
  return weights_of_lanes(shape, A_, B_, of_taps, [&](std::int64_t vector) {
    return [&, vector](std::int64_t tap, std::int64_t a) -> const float* {
      const std::int64_t tile =
          places_[static_cast<std::size_t>((tap * vectors_ + vector) * a_blocks_ + a / 16)];
      if (!begun_[static_cast<std::size_t>(tile / 4)]) return zeros;
      return sums_.data() + tile * 256 + a % 16 * 16;
    };
  });
}

}  // namespace

bool tile_weight_grad_fits(const ConvSpec& spec) {
  return (spec.transposed ? spec.out : spec.in) >= 8;
}

at::Tensor tile_weight_grad(const ConvSpec& spec, const at::Tensor& x, const at::Tensor& grad) {
  const at::Tensor &u = spec.transposed ? grad : x, &v = spec.transposed ? x : grad;
  TileWeightGrad g(spec, u, v);
  g.add(static_cast<const Bf16Bits*>(u.const_data_ptr()),
        static_cast<const Bf16Bits*>(v.const_data_ptr()), u.size(0));
  return g.result(weight_shape(spec));
}

}  // namespace sluice
