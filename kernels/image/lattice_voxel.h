// What the permutohedral lattice does for one voxel, one use of a vertex, or one vertex: how it is
// built on a device, and how it filters on host and device.
//
// A use is one of the d + 1 vertices of a voxel, number voxel (d + 1) + k. On the host one table
// numbers vertices as it meets them (lattice.cpp). On a device all uses go into a table at once, in
// any order, and each place of it keeps the least use of its key: sums over the uses that come
// first of their vertex then number the vertices as the host does.
//
// Invariant: vertices, their numbers and every sum's order are the host's, so the bits are.
#pragma once

#include "kernels/base/lanes.h"
#include "kernels/image/lattice_point.h"

namespace sluice::kernels {

SLUICE_HD inline std::uint64_t lattice_hash(const std::int32_t* key, int d) {
  std::uint64_t h = 0;
  for (int i = 0; i < d; ++i) h = (h ^ static_cast<std::uint32_t>(key[i])) * 0x9e3779b97f4a7c15u;
  return h >> 32;
}
SLUICE_HD inline bool same_key(const std::int32_t* a, const std::int32_t* b, int d) {
  bool equal = true;
  for (int i = 0; i < d; ++i) equal &= a[i] == b[i];
  return equal;
}

// ---- building on a device -----------------------------------------------------------------------

// The stages, in order; between mark and number the caller sums `first` up.
enum class LatticeStage : std::uint8_t { place, insert, mark, number, neighbours };

struct LatticeBuild {
  int d = 0;                           // numbers of a feature
  std::int64_t n = 0, places = 0;      // voxels; of the table, a power of two above uses()
  std::int64_t vertices = 0;           // from `number` on
  double sigma[lattice_most] = {};     // of each feature
  const float* features = nullptr;     // [d, n]
  std::int32_t* keys = nullptr;        // [uses, d]
  float* weight = nullptr;             // [uses]
  std::int32_t* table = nullptr;       // [places]: -1, or the least use of a key
  std::int32_t* slot = nullptr;        // [uses]: the place of its key
  std::int32_t* first = nullptr;       // [uses]: 1 where its vertex comes first
  const std::int32_t* sums = nullptr;  // [uses]: of `first`, up to and with the use
  std::int32_t* vertex = nullptr;      // [uses]
  std::int32_t* use = nullptr;         // [vertices]: the first one of each
  std::int32_t *before = nullptr, *after = nullptr;  // [d + 1, vertices]: `vertices` where none is
  std::int32_t* bad = nullptr;                       // one number: 1 where a voxel has no vertices

  SLUICE_HD std::int64_t uses() const { return n * (d + 1); }
  // How many there are to do of a stage.
  SLUICE_HD std::int64_t items(LatticeStage stage) const {
    return stage == LatticeStage::place        ? n
           : stage == LatticeStage::neighbours ? vertices * (d + 1)
                                               : uses();
  }
};

// D: the numbers of a feature; 0: told at run time.
template <int D>
SLUICE_HD inline void lattice_place(const LatticeBuild& b, std::int64_t voxel) {
  LatticePoint<D> point;
  const bool good = point.set(b.d, [&](int f) { return b.features[f * b.n + voxel] / b.sigma[f]; });
  if (!good) *b.bad = 1;
  for (int k = 0; k <= b.d; ++k) {
    const std::int64_t use = voxel * (b.d + 1) + k;
    for (int f = 0; f < b.d; ++f) b.keys[use * b.d + f] = good ? point.key(k, f) : 0;
    b.weight[use] = good ? static_cast<float>(point.weight[k]) : 0.0f;
  }
}

SLUICE_HD inline void lattice_mark(const LatticeBuild& b, std::int64_t use) {
  b.first[use] = b.table[b.slot[use]] == use;
}

SLUICE_HD inline void lattice_number(const LatticeBuild& b, std::int64_t use) {
  const std::int32_t least = b.table[b.slot[use]];
  b.vertex[use] = b.sums[least] - 1;
  if (least == use) b.use[b.vertex[use]] = least;
}

// Of one vertex and axis: axis * vertices + vertex. The arrays hold `vertices` before.
SLUICE_HD inline void lattice_neighbours(const LatticeBuild& b, std::int64_t item) {
  const auto axis = static_cast<int>(item / b.vertices);
  const std::int64_t v = item % b.vertices;
  std::int32_t key[lattice_most];
  for (int f = 0; f < b.d; ++f)
    key[f] = b.keys[static_cast<std::int64_t>(b.use[v]) * b.d + f] + (f == axis ? -b.d : 1);
  const auto mask = static_cast<std::uint64_t>(b.places - 1);
  for (std::uint64_t at = lattice_hash(key, b.d) & mask; b.table[at] >= 0; at = (at + 1) & mask) {
    if (!same_key(key, b.keys + static_cast<std::int64_t>(b.table[at]) * b.d, b.d)) continue;
    const std::int32_t next = b.sums[b.table[at]] - 1;
    b.after[item] = next;
    b.before[axis * b.vertices + next] = static_cast<std::int32_t>(v);
    return;
  }
}

// ---- filtering ----------------------------------------------------------------------------------

enum class LatticeWork : std::uint8_t { splat, blur, slice };

// Values at voxels are [channels, n], at vertices [vertices + 1, channels]; the last is one that is
// not there, and 0.
template <class T>
struct LatticeCall {
  int d = 0;
  std::int64_t n = 0, channels = 1, vertices = 0;
  const std::int32_t* vertex = nullptr;                    // [uses]
  const float* weight = nullptr;                           // [uses]
  const std::uint32_t *first = nullptr, *user = nullptr;   // [vertices + 1], [uses]: voxels
  const float* user_weight = nullptr;                      // [uses]
  const std::int32_t *before = nullptr, *after = nullptr;  // [d + 1, vertices]
  const float* norm = nullptr;  // [n]: what a slice is divided by, where it is
  const T* in = nullptr;
  T* out = nullptr;
};

// What the voxels give to channel c of a vertex.
template <class T>
SLUICE_HD inline T lattice_splat(const LatticeCall<T>& call, std::int64_t v, std::int64_t c) {
  const T* x = call.in + c * call.n;
  T sum = 0;
  for (std::uint32_t u = call.first[v]; u < call.first[v + 1]; ++u)
    sum = mad(static_cast<T>(call.user_weight[u]), x[call.user[u]], sum);
  return sum;
}

// Half of a vertex and a quarter of each of its neighbours along an axis.
template <class T>
SLUICE_HD inline T lattice_blur(const LatticeCall<T>& call, std::int64_t channels, int axis,
                                std::int64_t v, std::int64_t c) {
  const std::int64_t at = axis * call.vertices + v;
  const T left = call.in[call.before[at] * channels + c],
          right = call.in[call.after[at] * channels + c];
  return mad(T(.5), call.in[v * channels + c], T(.25) * (left + right));
}

// What a voxel reads of its vertices.
template <class T>
SLUICE_HD inline T lattice_slice(const LatticeCall<T>& call, std::int64_t channels,
                                 std::int64_t voxel, std::int64_t c) {
  T sum = 0;
  for (std::int64_t use = voxel * (call.d + 1); use < (voxel + 1) * (call.d + 1); ++use)
    sum = mad(static_cast<T>(call.weight[use]), call.in[call.vertex[use] * channels + c], sum);
  return call.norm ? sum / static_cast<T>(call.norm[voxel]) : sum;
}

}  // namespace sluice::kernels
