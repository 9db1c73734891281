// The permutohedral lattice: a thread a voxel, a use of a vertex, or a vertex and channel.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/table.h"
#include "kernels/image/lattice_voxel.h"

namespace sluice::kernels {
namespace {

constexpr int threads = 128;

template <int D>
__global__ void __launch_bounds__(threads) place(LatticeBuild b) {
  each_item(b.n, [&](std::int64_t i) { lattice_place<D>(b, i); });
}

// A place belongs to the key that takes it first; its uses leave the least one there. What is in a
// place may change meanwhile, but not the key that it stands for.
__global__ void __launch_bounds__(threads) insert(LatticeBuild b) {
  const auto mask = static_cast<std::uint64_t>(b.places - 1);
  each_item(b.uses(), [&](std::int64_t i) {
    const auto use = static_cast<std::int32_t>(i);
    const std::int32_t* key = b.keys + i * b.d;
    for (std::uint64_t at = lattice_hash(key, b.d) & mask;; at = (at + 1) & mask) {
      const std::int32_t there = atomicCAS(b.table + at, -1, use);
      if (there >= 0 && !same_key(key, b.keys + static_cast<std::int64_t>(there) * b.d, b.d))
        continue;
      if (there > use) atomicMin(b.table + at, use);
      b.slot[i] = static_cast<std::int32_t>(at);
      return;
    }
  });
}

__global__ void __launch_bounds__(threads) mark(LatticeBuild b) {
  each_item(b.uses(), [&](std::int64_t i) { lattice_mark(b, i); });
}
__global__ void __launch_bounds__(threads) number(LatticeBuild b) {
  each_item(b.uses(), [&](std::int64_t i) { lattice_number(b, i); });
}
__global__ void __launch_bounds__(threads) neighbours(LatticeBuild b) {
  each_item(b.items(LatticeStage::neighbours), [&](std::int64_t i) { lattice_neighbours(b, i); });
}

__global__ void __launch_bounds__(threads) splat(LatticeCall<float> c) {
  each_item((c.vertices + 1) * c.channels, [&](std::int64_t i) {
    const std::int64_t v = i / c.channels;
    c.out[i] = v < c.vertices ? lattice_splat(c, v, i % c.channels) : 0.0f;
  });
}
__global__ void __launch_bounds__(threads) blur(LatticeCall<float> c, int axis) {
  each_item((c.vertices + 1) * c.channels, [&](std::int64_t i) {
    const std::int64_t v = i / c.channels;
    c.out[i] = v < c.vertices ? lattice_blur(c, c.channels, axis, v, i % c.channels) : 0.0f;
  });
}
__global__ void __launch_bounds__(threads) slice(LatticeCall<float> c) {
  each_item(c.n * c.channels,
            [&](std::int64_t i) { c.out[i] = lattice_slice(c, c.channels, i % c.n, i / c.n); });
}

}  // namespace

int cuda_lattice_build(const LatticeBuild& b, LatticeStage stage, void* stream) {
  const std::int64_t n = b.items(stage);
  if (n < 0 || b.d < 1 || b.d > lattice_most || b.uses() >= std::int64_t{1} << 31 ||
      (b.places & (b.places - 1)) != 0 || b.places <= b.uses())
    return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  const auto go = [&](auto* kernel) {
    return launch(kernel, blocks_for(n, threads), threads, stream, b);
  };
  switch (stage) {
    case LatticeStage::place:
      return b.d == 3 ? go(place<3>) : b.d == 4 ? go(place<4>) : go(place<0>);
    case LatticeStage::insert:
      return go(insert);
    case LatticeStage::mark:
      return go(mark);
    case LatticeStage::number:
      return go(number);
    default:
      return go(neighbours);
  }
}

int cuda_lattice(const LatticeCall<float>& c, LatticeWork work, int axis, void* stream) {
  if (c.n < 0 || c.channels < 0 || axis < 0 || axis > c.d) return cudaErrorInvalidValue;
  const std::int64_t n =
      work == LatticeWork::slice ? c.n * c.channels : (c.vertices + 1) * c.channels;
  if (n == 0) return cudaSuccess;
  if (work == LatticeWork::blur)
    return launch(blur, blocks_for(n, threads), threads, stream, c, axis);
  return launch(work == LatticeWork::splat ? splat : slice, blocks_for(n, threads), threads, stream,
                c);
}

}  // namespace sluice::kernels
